package etf

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
)

// The canonical form of a term is the same for all encodings of the same Erlang
// term and different for different terms. Map keys that are compound are
// compared by it. That of a compound term is a hash over those of its parts, so
// that a term inside a key inside a key costs no more than its own length.
const (
	canonByte byte = iota
	canonInt64
	canonBigInteger
	canonFloatBits
	canonAtom
	canonBinary
	canonTuple
	canonList
	canonMap
)

func (s *scanner) canonical(k *key) []byte { return s.canon[k.canon : k.canon+1+sha256.Size] }

func (s *scanner) canonText(class byte, text []byte) {
	s.canon = append(s.canon, class)
	s.canon = binary.BigEndian.AppendUint32(s.canon, uint32(len(text)))
	s.canon = append(s.canon, text...)
}

func (s *scanner) canonInteger(n integer) {
	switch {
	case n.mag != nil && n.neg:
		s.canon = append(s.canon, canonBigInteger, '-')
		s.canonText(canonBigInteger, n.mag)
	case n.mag != nil:
		s.canon = append(s.canon, canonBigInteger, '+')
		s.canonText(canonBigInteger, n.mag)
	case n.small >= 0 && n.small < 256:
		s.canon = append(s.canon, canonByte, byte(n.small))
	default:
		s.canon = append(s.canon, canonInt64)
		s.canon = binary.BigEndian.AppendUint64(s.canon, uint64(n.small))
	}
}

func (s *scanner) canonBytes(list []byte) {
	for _, b := range list {
		s.canon = append(s.canon, canonByte, b)
	}
}

func (s *scanner) canonFloat(f float64) {
	s.canon = append(s.canon, canonFloatBits)
	s.canon = binary.BigEndian.AppendUint64(s.canon, math.Float64bits(f))
}

// seal replaces the canonical forms from mark on by that of the term they are
// the parts of.
func (s *scanner) seal(class byte, mark int) {
	sum := sha256.Sum256(s.canon[mark:])
	s.canon = append(append(s.canon[:mark], class), sum[:]...)
}

// sealMap is seal for a map, whose entries have no order.
func (s *scanner) sealMap(keys []key, mark int) {
	end := len(s.canon)
	if !slices.IsSortedFunc(keys, s.byCanon) {
		slices.SortFunc(keys, s.byCanon)
	}
	for _, k := range keys {
		s.canon = append(s.canon, s.canon[k.canon:k.canonEnd]...)
	}
	sum := sha256.Sum256(s.canon[end:])
	s.canon = append(append(s.canon[:mark], canonMap), sum[:]...)
}

func (s *scanner) byCanon(a, b key) int {
	return bytes.Compare(s.canon[a.canon:a.canonEnd], s.canon[b.canon:b.canonEnd])
}
