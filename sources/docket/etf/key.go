package etf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/big"
)

// class is the kind of a key, in Erlang's order of kinds.
type class uint8

const (
	classInteger class = iota
	classFloat
	classAtom
	classTuple
	classMap
	classNil
	classList
	classBinary
)

// key is a map key that has been validated.
type key struct {
	at, end         int32 // the key's bytes; its value follows
	from            int32 // where a binary's or an atom's text starts
	class           class
	value           traits
	canon, canonEnd int // bounds of its canonical form, and where that of its value ends, if there are any
}

// key validates a map key. Compound keys always get a canonical form, the
// others where they are inside a key themselves.
func (s *scanner) key(at, depth int, keyed bool) (key, traits, *SyntaxError) {
	if at >= len(s.src) {
		return key{}, 0, s.truncated()
	}
	k := key{at: int32(at), canon: len(s.canon)}
	switch s.src[at] {
	case tagBinary, tagBitBinary:
		k.class = classBinary
	case tagSmallInteger, tagInteger, tagSmallBig, tagLargeBig:
		k.class = classInteger
	case tagNewFloat, tagFloat:
		k.class = classFloat
	case tagSmallAtomUTF8, tagAtomUTF8, tagSmallAtom, tagAtom:
		k.class = classAtom
	case tagMap:
		k.class, keyed = classMap, true
	case tagSmallTuple, tagLargeTuple:
		k.class, keyed = classTuple, true
	default:
		k.class, keyed = classList, true
	}
	end, t, wrong := s.term(at, depth+1, keyed)
	if wrong != nil {
		return key{}, 0, wrong
	}
	k.end, k.canonEnd = int32(end), len(s.canon)
	switch k.class {
	case classList:
		if t&emptyList != 0 {
			k.class = classNil
		}
	case classBinary:
		from, _, _ := s.binary(at)
		k.from = int32(from)
	case classAtom:
		from, _, _ := atomBounds(s.src, at)
		k.from = int32(from)
	}
	return k, t, nil
}

// keyText returns the text of an atom or binary.
func (s *scanner) keyText(k *key) []byte {
	if k.class == classAtom {
		return atomAt(s.src, int(k.at)).utf8()
	}
	return s.src[k.from:k.end]
}

// compare orders keys; 0 means that they are the same Erlang term (=:=). It is
// term order except among compound keys, where it only has to be an order.
func (s *scanner) compare(a, b *key) int {
	if c := s.compareLoosely(a, b); c != 0 || !a.class.compound() {
		return c
	}
	return bytes.Compare(s.canonical(a), s.canonical(b))
}

func (c class) compound() bool { return c == classTuple || c == classMap || c == classList }

// compareLoosely is term order, in which compound keys of one kind and size are
// all equal.
func (s *scanner) compareLoosely(a, b *key) int {
	if a.class <= classFloat && b.class <= classFloat {
		return s.compareNumbers(a, b)
	}
	if a.class != b.class {
		return cmp.Compare(a.class, b.class)
	}
	switch a.class {
	case classBinary:
		return bytes.Compare(s.src[a.from:a.end], s.src[b.from:b.end])
	case classAtom:
		return bytes.Compare(s.keyText(a), s.keyText(b))
	case classTuple, classMap:
		return cmp.Compare(s.size(a), s.size(b))
	}
	return 0
}

// size is the number of elements of a tuple or map.
func (s *scanner) size(k *key) uint32 {
	if s.src[k.at] == tagSmallTuple {
		return uint32(s.src[k.at+1])
	}
	return binary.BigEndian.Uint32(s.src[k.at+1:])
}

// compareNumbers orders by value, an integer before the float of equal value,
// and -0.0 before 0.0: these are different keys.
func (s *scanner) compareNumbers(a, b *key) int {
	switch {
	case a.class == classFloat && b.class == classFloat:
		x, _ := floatAt(s.src, int(a.at))
		y, _ := floatAt(s.src, int(b.at))
		if x == 0 && y == 0 {
			return cmp.Compare(sign(x), sign(y))
		}
		return cmp.Compare(x, y)
	case a.class == classFloat:
		return -s.compareNumbers(b, a)
	}
	x, _ := integerAt(s.src, int(a.at))
	if b.class == classInteger {
		y, _ := integerAt(s.src, int(b.at))
		return compareIntegers(x, y)
	}
	y, _ := floatAt(s.src, int(b.at))
	if c := compareIntegerFloat(x, y); c != 0 {
		return c
	}
	return -1
}

func sign(f float64) int {
	if math.Signbit(f) {
		return -1
	}
	return 1
}

func compareIntegers(x, y integer) int {
	if x.mag == nil && y.mag == nil {
		return cmp.Compare(x.small, y.small)
	}
	if x.negative() != y.negative() || x.mag == nil || y.mag == nil {
		return cmp.Compare(x.reach(), y.reach())
	}
	c := cmp.Compare(len(x.mag), len(y.mag))
	for i := len(x.mag) - 1; c == 0 && i >= 0; i-- {
		c = cmp.Compare(x.mag[i], y.mag[i])
	}
	if x.neg {
		return -c
	}
	return c
}

func (n integer) negative() bool { return n.mag != nil && n.neg || n.small < 0 }

// reach tells integers beyond int64, on either side, from those within.
func (n integer) reach() int {
	switch {
	case n.mag == nil:
		return 0
	case n.neg:
		return -1
	}
	return 1
}

func compareIntegerFloat(x integer, y float64) int {
	const exact = 1 << 53
	if x.mag == nil && x.small > -exact && x.small < exact {
		return cmp.Compare(float64(x.small), y)
	}
	if len(x.mag) > 128 { // beyond every float
		return x.reach()
	}
	if math.Abs(y) < exact {
		if x.negative() {
			return -1
		}
		return 1
	}
	whole, _ := big.NewFloat(y).Int(nil)
	return x.big().Cmp(whole)
}
