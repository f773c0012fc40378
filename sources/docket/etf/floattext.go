package etf

import (
	"bytes"
	"math"
	"strconv"
)

// appendFloat appends the shortest text that reads back as f, in the form that
// Erlang prints: it always has a point, takes an exponent where that is
// shorter, and always takes one from 2^53 on, where floats skip integers.
func appendFloat(dst []byte, f float64) []byte {
	if math.Signbit(f) {
		dst, f = append(dst, '-'), -f
	}
	if f == 0 {
		return append(dst, "0.0"...)
	}
	var scratch [32]byte
	digits, exp := shortest(scratch[:0], f)
	last := exp - len(digits) + 1 // power of ten of the last digit
	cost := 2 + len(strconv.AppendInt(scratch[24:24], int64(exp), 10))
	switch {
	case last >= 0:
		if len(digits) == 1 {
			cost++
		}
		if last+2 <= cost && f < 1<<53 {
			return append(zeros(append(dst, digits...), last), ".0"...)
		}
	case exp >= 0:
		dst = append(dst, digits[:exp+1]...)
		return append(append(dst, '.'), digits[exp+1:]...)
	case 1-exp <= cost:
		return append(zeros(append(dst, "0."...), -exp-1), digits...)
	}
	return appendScientific(dst, digits, exp)
}

// shortest returns the significant digits of f and the exponent of the first.
func shortest(scratch []byte, f float64) ([]byte, int) {
	text := strconv.AppendFloat(scratch, f, 'e', -1, 64)
	mark := bytes.IndexByte(text, 'e')
	exp, sign := 0, 1
	for _, c := range text[mark+1:] {
		if c == '-' {
			sign = -1
		} else if c != '+' {
			exp = 10*exp + int(c-'0')
		}
	}
	digits := text[:mark]
	if len(digits) > 1 { // drop the point
		copy(digits[1:], digits[2:])
		digits = digits[:mark-1]
	}
	return digits, sign * exp
}

func appendScientific(dst, digits []byte, exp int) []byte {
	dst = append(dst, digits[0], '.')
	if len(digits) == 1 {
		dst = append(dst, '0')
	}
	dst = append(append(dst, digits[1:]...), 'e')
	return strconv.AppendInt(dst, int64(exp), 10)
}

func zeros(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, '0')
	}
	return dst
}
