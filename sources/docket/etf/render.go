package etf

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
	"strconv"
)

// renderer is the second pass: it appends the JSON of terms that the scanner
// has validated.
type renderer struct {
	src    []byte
	shapes []shape // by offset
	order  []int32
	text   []byte
	max    int  // length that the output may reach
	over   bool // it went beyond
}

// full reports that no more may be appended.
func (r *renderer) full(dst []byte, more int) bool {
	if len(dst)+more > r.max {
		r.over = true
	}
	return r.over
}

// term appends the term at the offset and returns where it ends. Once r.over is
// set the result is of no use.
func (r *renderer) term(dst []byte, at int) ([]byte, int) {
	switch r.src[at] {
	case tagBinary, tagBitBinary:
		b, end := r.binary(at)
		if r.full(dst, len(b)) {
			return dst, end
		}
		return appendBinary(dst, b), end
	case tagSmallInteger:
		return strconv.AppendUint(dst, uint64(r.src[at+1]), 10), at + 2
	case tagInteger, tagSmallBig, tagLargeBig:
		return r.integer(dst, at)
	case tagSmallAtomUTF8, tagAtomUTF8, tagSmallAtom, tagAtom:
		a := atomAt(r.src, at)
		if literal := a.literal(); literal != "" {
			return append(dst, literal...), a.end
		}
		return appendText(dst, a.utf8()), a.end
	case tagMap:
		return r.mapTerm(dst, at)
	case tagNewFloat:
		f, _ := floatAt(r.src, at)
		return appendFloat(dst, f), at + 9
	case tagFloat:
		f, _ := floatAt(r.src, at)
		return appendFloat(dst, f), at + 32
	case tagSmallTuple:
		dst, end := r.elements(append(dst, `{"$tuple":[`...), at+2, int(r.src[at+1]))
		return append(dst, "]}"...), end
	case tagLargeTuple:
		dst, end := r.elements(append(dst, `{"$tuple":[`...), at+5, r.length(at))
		return append(dst, "]}"...), end
	}
	return r.list(dst, at)
}

// length reads the four bytes of length after the tag.
func (r *renderer) length(at int) int { return int(binary.BigEndian.Uint32(r.src[at+1:])) }

func (r *renderer) binary(at int) (content []byte, end int) {
	from := at + 5
	if r.src[at] == tagBitBinary {
		from++
	}
	end = from + r.length(at)
	return r.src[from:end], end
}

func (r *renderer) integer(dst []byte, at int) ([]byte, int) {
	n, end := integerAt(r.src, at)
	if n.mag == nil {
		return n.appendDecimal(dst), end
	}
	if r.full(dst, 2*len(n.mag)) {
		return dst, end
	}
	return append(n.appendDecimal(append(dst, `{"$int":"`...)), `"}`...), end
}

// elements appends n terms in a row, separated by commas.
func (r *renderer) elements(dst []byte, pos, n int) ([]byte, int) {
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, pos = r.term(dst, pos); r.full(dst, 0) {
			break
		}
	}
	return dst, pos
}

func (r *renderer) list(dst []byte, at int) ([]byte, int) {
	dst = append(dst, '[')
	start := len(dst)
	for !r.over {
		switch r.src[at] {
		case tagNil:
			return append(dst, ']'), at + 1
		case tagString:
			end := at + 3 + int(binary.BigEndian.Uint16(r.src[at+1:]))
			for _, b := range r.src[at+3 : end] {
				if len(dst) > start {
					dst = append(dst, ',')
				}
				dst = strconv.AppendUint(dst, uint64(b), 10)
			}
			return append(dst, ']'), end
		}
		n := r.length(at)
		if n > 0 && len(dst) > start {
			dst = append(dst, ',')
		}
		dst, at = r.elements(dst, at+5, n)
	}
	return dst, at
}

// shape returns what the scanner remembers of the map at the offset.
func (r *renderer) shape(at int) shape {
	if len(r.shapes) == 0 {
		return shape{}
	}
	i := sort.Search(len(r.shapes), func(i int) bool { return int(r.shapes[i].at) >= at })
	if i < len(r.shapes) && int(r.shapes[i].at) == at {
		return r.shapes[i]
	}
	return shape{}
}

func (r *renderer) mapTerm(dst []byte, at int) ([]byte, int) {
	sh := r.shape(at)
	switch sh.kind {
	case object:
		return r.object(dst, at)
	case pairs:
		return r.pairs(dst, at)
	case dateTime:
		dst = append(append(dst, '"'), r.text[sh.first:sh.first+sh.n]...)
		return append(dst, '"'), int(sh.end)
	case mapSet:
		return append(r.members(append(dst, `{"$set":[`...), int(sh.first)), "]}"...), int(sh.end)
	}
	return r.docketStruct(dst, at, int(sh.first))
}

func (r *renderer) object(dst []byte, at int) ([]byte, int) {
	dst = append(dst, '{')
	pos := at + 5
	for i := range r.length(at) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst, pos = r.member(dst, pos)
		if r.full(dst, 0) {
			break
		}
	}
	return append(dst, '}'), pos
}

// member appends an object's key and value.
func (r *renderer) member(dst []byte, pos int) ([]byte, int) {
	text, end := r.keyText(pos)
	if r.full(dst, len(text)) {
		return dst, end
	}
	return r.term(append(appendText(dst, text), ':'), end)
}

// keyText returns the text of a key that is one.
func (r *renderer) keyText(at int) (text []byte, end int) {
	if isAtom(r.src[at]) {
		a := atomAt(r.src, at)
		return a.utf8(), a.end
	}
	return r.binary(at)
}

func (r *renderer) pairs(dst []byte, at int) ([]byte, int) {
	dst = append(dst, `{"$map":[`...)
	pos := at + 5
	for i := range r.length(at) {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, pos = r.pair(dst, pos); r.full(dst, 0) {
			break
		}
	}
	return append(dst, "]}"...), pos
}

func (r *renderer) pair(dst []byte, pos int) ([]byte, int) {
	dst, pos = r.term(append(dst, '['), pos)
	if r.over {
		return dst, pos
	}
	dst, pos = r.term(append(dst, ','), pos)
	return append(dst, ']'), pos
}

// members appends the keys of the map inside a MapSet. The scanner recorded
// their order where they were not encoded in it.
func (r *renderer) members(dst []byte, at int) []byte {
	if sh := r.shape(at); sh.n > 0 {
		for i, member := range r.order[sh.first : sh.first+sh.n] {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, _ = r.term(dst, int(member)); r.full(dst, 0) {
				break
			}
		}
		return dst
	}
	pos := at + 5
	for i := range r.length(at) {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, pos = r.term(dst, pos); r.full(dst, 0) {
			break
		}
		pos = r.emptyListEnd(pos)
	}
	return dst
}

// emptyListEnd returns where the empty list at the offset ends, however it is
// encoded.
func (r *renderer) emptyListEnd(at int) int {
	for r.src[at] == tagList {
		at += 5
	}
	if r.src[at] == tagString {
		return at + 3
	}
	return at + 1
}

// docketStruct puts the module first, wherever it was encoded.
func (r *renderer) docketStruct(dst []byte, at, module int) ([]byte, int) {
	dst = append(dst, `{"$struct":`...)
	pos := at + 5
	dst = appendText(dst, bytes.TrimPrefix(atomAt(r.src, module).text, []byte(elixir)))
	for range r.length(at) {
		text, end := r.keyText(pos)
		if string(text) == "__struct__" {
			pos = atomAt(r.src, end).end
			continue
		}
		if dst, pos = r.member(append(dst, ','), pos); r.full(dst, 0) {
			return dst, pos
		}
	}
	return append(dst, '}'), pos
}

// kept appends the event's map with only the wanted keys. entries are its keys
// in encoded order.
func (r *renderer) kept(dst []byte, root int, entries []key, wanted []string) []byte {
	head, tail, one := "{", "}", r.member
	if r.shape(root).kind == pairs {
		head, tail, one = `{"$map":[`, "]}", r.pair
	}
	dst = append(dst, head...)
	start := len(dst)
	for i := range entries {
		if k := &entries[i]; !k.named(r, wanted) {
			continue
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		if dst, _ = one(dst, int(entries[i].at)); r.full(dst, 0) {
			break
		}
	}
	return append(dst, tail...)
}

// named reports whether the key is the text of one of the names.
func (k *key) named(r *renderer, names []string) bool {
	if k.class != classAtom && k.class != classBinary {
		return false
	}
	text, _ := r.keyText(int(k.at))
	return slices.ContainsFunc(names, func(name string) bool { return name == string(text) })
}
