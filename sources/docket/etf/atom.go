package etf

import (
	"encoding/binary"
	"unicode/utf8"
)

// maxAtomCharacters is Erlang's limit.
const maxAtomCharacters = 255

// atom is an atom as encoded.
type atom struct {
	text   []byte
	latin1 bool // text has bytes above 127 and is Latin-1, not UTF-8
	end    int
}

func isAtom(tag byte) bool {
	return tag == tagSmallAtomUTF8 || tag == tagAtomUTF8 || tag == tagSmallAtom || tag == tagAtom
}

// atomBounds returns where the text of the atom at the offset starts and ends.
// ok is false where even the length is missing.
func atomBounds(src []byte, at int) (from, end int, ok bool) {
	if tag := src[at]; tag == tagSmallAtomUTF8 || tag == tagSmallAtom {
		if at+2 > len(src) {
			return 0, 0, false
		}
		return at + 2, at + 2 + int(src[at+1]), true
	}
	if at+3 > len(src) {
		return 0, 0, false
	}
	return at + 3, at + 3 + int(binary.BigEndian.Uint16(src[at+1:])), true
}

// atomAt reads an atom that has been validated.
func atomAt(src []byte, at int) atom {
	from, end, _ := atomBounds(src, at)
	text := src[from:end]
	tag := src[at]
	return atom{
		text:   text,
		latin1: (tag == tagSmallAtom || tag == tagAtom) && !ascii(text),
		end:    end,
	}
}

// atom reads and validates an atom.
func (s *scanner) atom(at int) (atom, *SyntaxError) {
	from, end, ok := atomBounds(s.src, at)
	if !ok || end > len(s.src) {
		return atom{}, s.truncated()
	}
	a := atomAt(s.src, at)
	switch tag := s.src[at]; {
	case tag == tagSmallAtom || tag == tagAtom:
		if len(a.text) > maxAtomCharacters {
			return atom{}, s.fail(at, "atom is longer than 255 characters")
		}
	case ascii(a.text) && len(a.text) <= maxAtomCharacters:
	case !utf8.Valid(a.text):
		return atom{}, s.fail(from, "atom is not UTF-8")
	case utf8.RuneCount(a.text) > maxAtomCharacters:
		return atom{}, s.fail(at, "atom is longer than 255 characters")
	}
	return a, nil
}

// literal returns the JSON of the atoms that have one, else "".
func (a atom) literal() string {
	switch string(a.text) {
	case "true":
		return "true"
	case "false":
		return "false"
	case "nil":
		return "null"
	}
	return ""
}

// utf8 returns the atom's text, converted if it must be.
func (a atom) utf8() []byte {
	if !a.latin1 {
		return a.text
	}
	converted := make([]byte, 0, 2*len(a.text))
	for _, c := range a.text {
		converted = utf8.AppendRune(converted, rune(c))
	}
	return converted
}

func ascii(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
