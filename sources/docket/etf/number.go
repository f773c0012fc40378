package etf

import (
	"encoding/binary"
	"math"
	"math/big"
	"slices"
	"strconv"
)

// maxIntegerBytes bounds an integer's magnitude, since turning one into decimal
// takes more than linear time.
const maxIntegerBytes = 64 << 10

// integer is an integer of any size.
type integer struct {
	small int64
	mag   []byte // little endian, last byte not 0; nil: the value is small
	neg   bool   // sign of mag
}

func isInteger(tag byte) bool {
	return tag == tagSmallInteger || tag == tagInteger || tag == tagSmallBig || tag == tagLargeBig
}

// integer reads and validates an integer.
func (s *scanner) integer(at int) (integer, int, *SyntaxError) {
	if at >= len(s.src) {
		return integer{}, 0, s.truncated()
	}
	if !isInteger(s.src[at]) {
		return integer{}, 0, s.fail(at, "not an integer")
	}
	end, ok := integerEnd(s.src, at)
	if !ok || end > len(s.src) {
		return integer{}, 0, s.truncated()
	}
	n, end := integerAt(s.src, at)
	if len(n.mag) > maxIntegerBytes {
		return integer{}, 0, s.fail(at, "integer has more than 65536 bytes")
	}
	return n, end, nil
}

// integerEnd returns where the integer at the offset ends, if its length is there.
func integerEnd(src []byte, at int) (int, bool) {
	switch src[at] {
	case tagSmallInteger:
		return at + 2, true
	case tagInteger:
		return at + 5, true
	case tagSmallBig:
		if at+3 > len(src) {
			return 0, false
		}
		return at + 3 + int(src[at+1]), true
	}
	if at+6 > len(src) {
		return 0, false
	}
	return at + 6 + int(binary.BigEndian.Uint32(src[at+1:])), true
}

// integerAt reads an integer whose bytes are known to be there.
func integerAt(src []byte, at int) (integer, int) {
	end, _ := integerEnd(src, at)
	switch src[at] {
	case tagSmallInteger:
		return integer{small: int64(src[at+1])}, end
	case tagInteger:
		return integer{small: int64(int32(binary.BigEndian.Uint32(src[at+1:])))}, end
	case tagSmallBig:
		return bigInteger(src[at+2] != 0, src[at+3:end]), end
	}
	return bigInteger(src[at+5] != 0, src[at+6:end]), end
}

func bigInteger(neg bool, mag []byte) integer {
	for len(mag) > 0 && mag[len(mag)-1] == 0 {
		mag = mag[:len(mag)-1]
	}
	if len(mag) > 8 {
		return integer{mag: mag, neg: neg}
	}
	var v uint64
	for i, b := range mag {
		v |= uint64(b) << (8 * i)
	}
	switch {
	case !neg && v <= math.MaxInt64:
		return integer{small: int64(v)}
	case neg && v <= 1<<63:
		return integer{small: -int64(v)}
	}
	return integer{mag: mag, neg: neg}
}

// appendDecimal appends the integer in decimal.
func (n integer) appendDecimal(dst []byte) []byte {
	if n.mag == nil {
		return strconv.AppendInt(dst, n.small, 10)
	}
	return n.big().Append(dst, 10)
}

func (n integer) big() *big.Int {
	if n.mag == nil {
		return big.NewInt(n.small)
	}
	bigEndian := slices.Clone(n.mag)
	slices.Reverse(bigEndian)
	v := new(big.Int).SetBytes(bigEndian)
	if n.neg {
		v.Neg(v)
	}
	return v
}

// float reads and validates a float; NaN and the infinities are no Erlang
// floats.
func (s *scanner) float(at int) (float64, int, *SyntaxError) {
	end := at + 9
	if s.src[at] == tagFloat {
		end = at + 32
	}
	if end > len(s.src) {
		return 0, 0, s.truncated()
	}
	f, ok := floatAt(s.src, at)
	if !ok {
		return 0, 0, s.fail(at, "not a finite float")
	}
	return f, end, nil
}

func floatAt(src []byte, at int) (float64, bool) {
	if src[at] == tagNewFloat {
		f := math.Float64frombits(binary.BigEndian.Uint64(src[at+1:]))
		return f, !math.IsNaN(f) && !math.IsInf(f, 0)
	}
	text := src[at+1 : at+32]
	if nul := slices.Index(text, 0); nul >= 0 {
		text = text[:nul]
	}
	if !decimalFloat(text) {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(text), 64)
	return f, err == nil
}

// decimalFloat accepts [+-]digits.digits[e[+-]digits], the text Erlang writes.
func decimalFloat(b []byte) bool {
	b = afterSign(b)
	b, ok := afterDigits(b)
	if !ok || len(b) == 0 || b[0] != '.' {
		return false
	}
	if b, ok = afterDigits(b[1:]); !ok {
		return false
	}
	if len(b) > 0 && (b[0] == 'e' || b[0] == 'E') {
		b, ok = afterDigits(afterSign(b[1:]))
	}
	return ok && len(b) == 0
}

func afterSign(b []byte) []byte {
	if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
		return b[1:]
	}
	return b
}

func afterDigits(b []byte) ([]byte, bool) {
	n := 0
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return b[n:], n > 0
}
