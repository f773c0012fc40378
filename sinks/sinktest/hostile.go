package sinktest

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/docket-exporter/exporter"
)

// hostileTexts is what may stand in a run id, a tenant or an interrupt. No NUL:
// PostgreSQL's text has none.
func hostileTexts() []string {
	var controls strings.Builder
	for c := byte(1); c < ' '; c++ {
		controls.WriteByte(c)
	}
	return []string{
		" ", ".", "*", ">", "a.b.*.>", "/", "../../etc/passwd", "#", "?", "%00%0a", "null", "0",
		"two\nlines", "cr\r\nX-Injected: yes", "tab\t", `"quoted"`, `back\slash`, "'; DROP TABLE events; --",
		controls.String(), "\x7f", "naïve", "日本語", "\U0001F600", "e\u0301", "\u00e9",
		"\u2028\u2029", "\ufeffbom", "\ufffd", "\u202eright to left", "{{template}}", "<b>&amp;</b>", "=1+1",
		strings.Repeat("r", 4096), strings.Repeat("é", 2048),
	}
}

// hostileValues is JSON that a sink may be tempted to read and write anew.
func hostileValues() []string {
	return []string{
		`{"n":9223372036854775807,"m":-9223372036854775808}`, `{"n":{"$int":"123456789012345678901234567890"}}`,
		`{"n":12345678901234567890123456789012345}`, `{"f":1.0,"g":1e400,"h":0.1000,"i":-0.0}`,
		`{"b":{"$bytes":"AAH/"},"m":{"$map":[[1,2]]}}`, `{"":"","a":{"":[[],{},null,true,false]}}`,
		`{"text":"\u0000\u0001\n\"\\\u2028"}`, `"text"`, `12`, `[]`, `null`, "",
		`{"deep":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
	}
}

// hostileBatch has each strange text as a run id of two events and in every
// other text, absent and empty texts, and the strange values.
func hostileBatch(seed uint64) exporter.Batch {
	rng := rand.New(rand.NewPCG(seed, 1))
	texts, values := hostileTexts(), hostileValues()
	at := time.Date(2026, 1, 1, 0, 0, 0, 1000, time.UTC)
	id := int64(seed)*10_000_000 + 1
	b := exporter.Batch{UID: "sinktest", Number: 1, Attempt: 1, From: exporter.Position{High: id - 1}}
	for i, run := range texts {
		for seq := int64(1); seq <= 2; seq++ {
			e := event(rng, id, run, seq, at)
			e.TenantID, e.TaskID, e.NodeID = some(texts[(i+1)%len(texts)]), some(texts[(i+2)%len(texts)]), some("")
			e.ChannelID, e.GraphID, e.GraphHash = exporter.Text{}, exporter.Text{}, exporter.Text{}
			e.Payload, e.Metadata = []byte(values[i%len(values)]), []byte(values[(i+int(seq))%len(values)])
			b.Events = append(b.Events, e)
			id++
		}
	}
	b.To, b.Rows = exporter.Position{High: id - 1}, len(b.Events)
	b.Sort(nil)
	return b
}

// bulkyBatch has events whose payloads are size bytes long.
func bulkyBatch(seed uint64, events, size int) exporter.Batch {
	b := Batch(seed, 2, (events+1)/2)
	for i := range b.Events {
		fill := strings.Repeat(string(rune('a'+i%26)), size-len(`{"text":""}`))
		b.Events[i].Payload = []byte(`{"text":"` + fill + `"}`)
	}
	return b
}
