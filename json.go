package exporter

import (
	"bytes"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendJSON appends the event as one JSON object on one line, without a
// newline at its end. The keys and their order are part of what readers may
// rely on; absent texts, and an empty Payload or Metadata, are null.
//
// Timestamps are RFC 3339 in UTC with six digits. Bytes that are not UTF-8
// become U+FFFD, as in encoding/json; the idempotency key still covers the
// original bytes. Payload and Metadata are copied as they are, so that the text
// of a number stays what it was; only line breaks between their tokens, which
// mean nothing in JSON, become spaces.
func (e *Event) AppendJSON(dst []byte) []byte {
	dst = e.Identity().AppendJSON(dst)
	dst = appendString(append(dst, `,"type":`...), e.Type)
	dst = strconv.AppendInt(append(dst, `,"step":`...), int64(e.Step), 10)
	dst = appendText(append(dst, `,"node_id":`...), e.NodeID)
	dst = appendText(append(dst, `,"channel_id":`...), e.ChannelID)
	dst = appendText(append(dst, `,"task_id":`...), e.TaskID)
	dst = appendText(append(dst, `,"tenant_id":`...), e.TenantID)
	dst = appendText(append(dst, `,"graph_id":`...), e.GraphID)
	dst = appendText(append(dst, `,"graph_hash":`...), e.GraphHash)
	dst = appendValue(append(dst, `,"payload":`...), e.Payload)
	dst = appendValue(append(dst, `,"metadata":`...), e.Metadata)
	dst = appendTime(append(dst, `,"occurred_at":"`...), e.OccurredAt)
	dst = appendTime(append(dst, `","inserted_at":"`...), e.InsertedAt)
	dst = e.Identity().AppendKey(append(dst, `","idempotency_key":"`...))
	return append(dst, '"', '}')
}

// AppendJSON appends the beginning of the object that Event.AppendJSON appends,
// up to its type.
func (id Identity) AppendJSON(dst []byte) []byte {
	dst = appendString(append(dst, `{"run_id":`...), id.RunID)
	dst = strconv.AppendInt(append(dst, `,"seq":`...), id.Seq, 10)
	return strconv.AppendInt(append(dst, `,"event_id":`...), id.EventID, 10)
}

// appendValue appends JSON bytes as they are, kept on one line.
func appendValue(dst, value []byte) []byte {
	if len(value) == 0 {
		return append(dst, "null"...)
	}
	start := len(dst)
	dst = append(dst, value...)
	for rest := dst[start:]; ; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			return dst
		}
		rest[i] = ' '
		rest = rest[i+1:]
	}
}

func appendText(dst []byte, t Text) []byte {
	if !t.Present {
		return append(dst, "null"...)
	}
	return appendString(dst, t.Value)
}

// appendString appends s as a JSON string. Nearly all texts need no escape and
// are copied in one go.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	n := plainPrefix(s)
	dst = append(dst, s[:n]...)
	if n < len(s) {
		dst = appendEscaped(dst, s[n:])
	}
	return append(dst, '"')
}

// plainPrefix returns how many leading bytes of s stand for themselves: ASCII
// but for control characters, the quote and the backslash. It looks at eight
// bytes at a time; a byte's top bit in special is set when that byte, or one
// before it, is not plain, so a whole clear word is certain.
func plainPrefix(s string) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		quote, slash := w^('"'*ones), w^('\\'*ones)
		special := w | (w - ' '*ones) | (quote - ones) | (slash - ones)
		if special&tops != 0 {
			break
		}
	}
	for i < len(s) && plain(s[i]) {
		i++
	}
	return i
}

func plain(c byte) bool { return c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' }

func appendEscaped(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	for len(s) > 0 {
		c := s[0]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s)
			dst, s = utf8.AppendRune(dst, r), s[size:]
			continue
		}
		s = s[1:]
		switch {
		case plain(c):
			dst = append(dst, c)
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return dst
}

// appendTime appends t as 2006-01-02T15:04:05.000000Z.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.AppendFormat(dst, "2006-01-02T15:04:05.000000Z")
	}
	hour, minute, second := t.Clock()
	dst = appendTwo(appendTwo(dst, year/100), year%100)
	dst = appendTwo(append(dst, '-'), int(month))
	dst = appendTwo(append(dst, '-'), day)
	dst = appendTwo(append(dst, 'T'), hour)
	dst = appendTwo(append(dst, ':'), minute)
	dst = appendTwo(append(dst, ':'), second)
	micro := t.Nanosecond() / 1000
	dst = appendTwo(append(dst, '.'), micro/10000)
	dst = appendTwo(dst, micro/100%100)
	dst = appendTwo(dst, micro%100)
	return append(dst, 'Z')
}

func appendTwo(dst []byte, n int) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }
