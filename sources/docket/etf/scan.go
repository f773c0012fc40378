package etf

import (
	"encoding/binary"
)

// scanner is the first pass: it validates src and settles what each map
// becomes.
type scanner struct {
	src      []byte
	maxDepth int
	keys     keyStack
	canon    []byte  // stack: canonical forms, see canon.go
	shapes   []shape // maps that are not plain objects
	order    []int32 // offsets of set elements, see shape
	text     []byte  // rendered DateTimes, see shape
}

// traits is what a container wants to know of a term inside it.
type traits uint8

const (
	openAtom  traits = 1 << iota // holds an atom that MapSet members may not hold
	emptyList                    // is []
	plainMap                     // is a map, not a struct
	nilValues                    // is a map in which every value is []
)

func (s *scanner) fail(at int, reason string) *SyntaxError {
	return &SyntaxError{Offset: at, Reason: reason}
}

func (s *scanner) truncated() *SyntaxError {
	return s.fail(len(s.src), "term is cut off")
}

// term validates the term at the offset and returns where it ends. Within a map
// key (keyed) it also pushes the term's canonical form.
func (s *scanner) term(at, depth int, keyed bool) (int, traits, *SyntaxError) {
	if at >= len(s.src) {
		return 0, 0, s.truncated()
	}
	switch tag := s.src[at]; tag {
	case tagBinary, tagBitBinary:
		from, end, wrong := s.binary(at)
		if wrong == nil && keyed {
			s.canonText(canonBinary, s.src[from:end])
		}
		return end, 0, wrong
	case tagSmallInteger, tagInteger, tagSmallBig, tagLargeBig:
		n, end, wrong := s.integer(at)
		if wrong == nil && keyed {
			s.canonInteger(n)
		}
		return end, 0, wrong
	case tagSmallAtomUTF8, tagAtomUTF8, tagSmallAtom, tagAtom:
		return s.atomTerm(at, keyed)
	case tagNewFloat, tagFloat:
		f, end, wrong := s.float(at)
		if wrong == nil && keyed {
			s.canonFloat(f)
		}
		return end, 0, wrong
	case tagMap:
		return s.mapTerm(at, depth, keyed)
	case tagNil, tagString, tagList:
		return s.list(at, depth, keyed)
	case tagSmallTuple, tagLargeTuple:
		return s.tuple(at, depth, keyed)
	default:
		return 0, 0, s.fail(at, foreign(tag))
	}
}

func (s *scanner) atomTerm(at int, keyed bool) (int, traits, *SyntaxError) {
	a, wrong := s.atom(at)
	if wrong != nil {
		return 0, 0, wrong
	}
	if keyed {
		s.canonText(canonAtom, a.utf8())
	}
	if a.literal() == "" {
		return a.end, openAtom, nil
	}
	return a.end, 0, nil
}

// binary returns the bounds of a binary's content.
func (s *scanner) binary(at int) (from, end int, wrong *SyntaxError) {
	from = at + 5
	if from > len(s.src) {
		return 0, 0, s.truncated()
	}
	n := int(binary.BigEndian.Uint32(s.src[at+1:]))
	if s.src[at] == tagBitBinary {
		if from >= len(s.src) {
			return 0, 0, s.truncated()
		}
		// Whole bytes may be written as a bit string too.
		if bits := s.src[from]; bits != 8 && (bits != 0 || n != 0) || bits == 8 && n == 0 {
			return 0, 0, s.fail(at, foreign(tagBitBinary))
		}
		from++
	}
	if n > len(s.src)-from {
		return 0, 0, s.truncated()
	}
	return from, from + n, nil
}

func (s *scanner) tuple(at, depth int, keyed bool) (int, traits, *SyntaxError) {
	pos, n := at+2, 0
	if s.src[at] == tagLargeTuple {
		pos = at + 5
	}
	if pos > len(s.src) {
		return 0, 0, s.truncated()
	}
	if s.src[at] == tagLargeTuple {
		n = int(binary.BigEndian.Uint32(s.src[at+1:]))
	} else {
		n = int(s.src[at+1])
	}
	if wrong := s.enter(at, depth, n, len(s.src)-pos); wrong != nil {
		return 0, 0, wrong
	}
	mark := len(s.canon)
	pos, t, wrong := s.elements(pos, n, depth, keyed)
	if wrong != nil {
		return 0, 0, wrong
	}
	if keyed {
		s.seal(canonTuple, mark)
	}
	return pos, t & openAtom, nil
}

// elements validates n terms in a row.
func (s *scanner) elements(pos, n, depth int, keyed bool) (int, traits, *SyntaxError) {
	var all traits
	for range n {
		end, t, wrong := s.term(pos, depth+1, keyed)
		if wrong != nil {
			return 0, 0, wrong
		}
		pos, all = end, all|t
	}
	return pos, all, nil
}

// enter checks what every container must satisfy: the depth, and that the bytes
// left can hold the terms it claims (a term has at least one byte).
func (s *scanner) enter(at, depth, terms, left int) *SyntaxError {
	if depth > s.maxDepth {
		return s.fail(at, "term is nested too deeply")
	}
	if terms > left {
		return s.fail(at, "container claims more terms than bytes are left")
	}
	return nil
}

// list validates a list in all its encodings. A list's tail may be a list
// again; such chains are followed without recursion.
func (s *scanner) list(at, depth int, keyed bool) (int, traits, *SyntaxError) {
	var all traits
	mark, length, pos := len(s.canon), 0, at
	for {
		if pos >= len(s.src) {
			return 0, 0, s.truncated()
		}
		n, end, wrong := s.listHead(pos, depth)
		if wrong != nil {
			return 0, 0, wrong
		}
		length += n
		switch s.src[pos] {
		case tagString:
			if keyed {
				s.canonBytes(s.src[end-n : end])
			}
			fallthrough
		case tagNil:
			if keyed {
				s.seal(canonList, mark)
			}
			if length == 0 {
				return end, emptyList, nil
			}
			return end, all & openAtom, nil
		case tagList:
			var t traits
			if pos, t, wrong = s.elements(end, n, depth, keyed); wrong != nil {
				return 0, 0, wrong
			}
			all |= t
		default:
			return 0, 0, s.fail(pos, "improper lists are not durable")
		}
	}
}

// listHead returns a list cell's number of elements and where its head ends
// (for a string that is the end of the list).
func (s *scanner) listHead(at, depth int) (n, end int, wrong *SyntaxError) {
	switch s.src[at] {
	case tagNil:
		return 0, at + 1, nil
	case tagString:
		if at+3 > len(s.src) {
			return 0, 0, s.truncated()
		}
		n = int(binary.BigEndian.Uint16(s.src[at+1:]))
		if n > len(s.src)-at-3 {
			return 0, 0, s.truncated()
		}
		return n, at + 3 + n, s.enter(at, depth, 0, 0)
	case tagList:
		if at+5 > len(s.src) {
			return 0, 0, s.truncated()
		}
		n = int(binary.BigEndian.Uint32(s.src[at+1:]))
		return n, at + 5, s.enter(at, depth, n, len(s.src)-at-5)
	}
	return 0, at, nil
}
