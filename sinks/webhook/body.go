package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/docket-exporter/exporter"
)

// mostHeader is the longest encoded text in a header, in bytes. Common servers
// refuse a line of 8 kB.
const mostHeader = 1024

// timeLayout is RFC 3339 with six digits, as in the body.
const timeLayout = "2006-01-02T15:04:05.000000Z"

func stamp(t time.Time) string { return t.UTC().Format(timeLayout) }

// encodeText makes any text safe for a header: every byte but letters, digits
// and -._~ becomes %XX, which any percent-decoding reverses. One that is too
// long then is sha256: and the hex SHA-256 of the text, which no encoded text
// looks like, since a colon is encoded.
func encodeText(s string) string {
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(s) && b.Len() <= mostHeader; i++ {
		if c := s[i]; unreserved(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	if b.Len() > mostHeader {
		sum := sha256.Sum256([]byte(s))
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	return b.String()
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// body renders the event. Nothing in it depends on when or by whom it is sent.
func (c *Config) body(e *exporter.Event) (body []byte, contentType string) {
	room := len(e.Payload) + len(e.Metadata) + 1024
	if c.Format != FormatCloudEvents {
		return e.AppendJSON(make([]byte, 0, room)), "application/json"
	}
	// The texts need no JSON escapes: Source was quoted by Open, encodeText's
	// output is ASCII without quotes.
	b := append(make([]byte, 0, room), `{"specversion":"1.0","id":"`...)
	b = e.Identity().AppendKey(b)
	b = append(append(b, `","source":`...), c.Source...)
	b = append(append(b, `,"type":"docket.`...), encodeText(e.Type)...)
	b = append(append(b, `","subject":"`...), encodeText(e.RunID)...)
	b = append(append(b, `","time":"`...), stamp(e.OccurredAt)...)
	b = append(b, `","datacontenttype":"application/json","data":`...)
	b = e.AppendJSON(b)
	return append(b, '}'), "application/cloudevents+json"
}
