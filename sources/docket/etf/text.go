package etf

import (
	"encoding/base64"
	"encoding/binary"
	"unicode/utf8"
)

// plain reports whether text is ASCII that JSON takes as it is.
func plain(text []byte) bool {
	for len(text) >= 8 {
		if word := binary.LittleEndian.Uint64(text); (word|escapes(word))&tops != 0 {
			return false
		}
		text = text[8:]
	}
	for _, c := range text {
		if escaped(c) || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

const ones, tops = 0x0101010101010101, 0x8080808080808080

// escapes sets the top bit of a byte of the word that must be escaped in JSON,
// if there is one. It may set others: of bytes above 127, and above a byte that
// is rightly marked.
func escapes(word uint64) uint64 {
	// A byte's subtraction sets its top bit where the byte was smaller.
	quote, backslash := word^(ones*'"'), word^(ones*'\\')
	return (word - ones*0x20) | (quote - ones) | (backslash - ones)
}

func escaped(c byte) bool { return c < 0x20 || c == '"' || c == '\\' }

// appendBinary appends a binary: a JSON string, or its bytes.
func appendBinary(dst, b []byte) []byte {
	if plain(b) {
		return append(append(append(dst, '"'), b...), '"')
	}
	if utf8.Valid(b) {
		return appendEscaped(dst, b)
	}
	dst = append(dst, `{"$bytes":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, `"}`...)
}

// appendText appends UTF-8 as a JSON string.
func appendText(dst, b []byte) []byte {
	if plain(b) {
		return append(append(append(dst, '"'), b...), '"')
	}
	return appendEscaped(dst, b)
}

func appendEscaped(dst, b []byte) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(b); i++ {
		if len(b)-i >= 8 {
			if word := binary.LittleEndian.Uint64(b[i:]); escapes(word)&^word&tops == 0 {
				i += 7
				continue
			}
		}
		if escaped(b[i]) {
			dst = appendEscape(append(dst, b[start:i]...), b[i])
			start = i + 1
		}
	}
	return append(append(dst, b[start:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
