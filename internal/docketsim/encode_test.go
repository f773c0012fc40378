package docketsim_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/docket-exporter/exporter/internal/docketsim"
)

// TestEncodeEventIsDocketsEncoding encodes what Docket decoded from real rows
// and expects the rows' bytes.
func TestEncodeEventIsDocketsEncoding(t *testing.T) {
	t.Parallel()
	rows := realRows(t)
	decoded, err := os.Open("testdata/docket_events.decoded.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = decoded.Close() }()
	lines, compared := bufio.NewScanner(decoded), 0
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			ID                int64
			Payload, Metadata map[string]any
		}
		numbers := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		numbers.UseNumber()
		if err := numbers.Decode(&event); err != nil {
			t.Fatal(err)
		}
		row := rows[event.ID]
		for name, values := range map[string]map[string]any{"payload": event.Payload, "metadata": event.Metadata} {
			got := docketsim.EncodeEvent(terms(t, values).(map[string]any))
			if want := unhex(t, row[name]); !bytes.Equal(got, want) {
				t.Errorf("event %d %s = %x, want %x", event.ID, name, got, want)
			}
			compared++
		}
	}
	if compared != 2*len(rows) || compared == 0 {
		t.Errorf("compared %d values of %d rows", compared, len(rows))
	}
}

func TestEncodeEventRareTerms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		value any
		want  string // after the envelope and the key
	}{
		"small big":          {int64(1) << 40, "6e0600000000000001"},
		"negative small big": {-(int64(1) << 40), "6e0601000000000001"},
		"least int64":        {int64(-1) << 63, "6e08010000000000000080"},
		"negative integer":   {-1, "62ffffffff"},
		"byte limit":         {256, "6200000100"},
		"float":              {1.5, "463ff8000000000000"},
		"not text":           {[]byte{0xff}, "6d00000001ff"},
	} {
		got := hex.EncodeToString(docketsim.EncodeEvent(map[string]any{"k": c.value}))
		want := "8368047706646f636b6574610177056576656e7474000000016d000000016b" + c.want
		if got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
}

// terms turns decoded JSON back into what was encoded: numbers are integers, as
// Docket's payloads have no other, and {"$bytes": base64} is a binary that is
// not UTF-8.
func terms(t *testing.T, value any) any {
	switch v := value.(type) {
	case json.Number:
		n, err := v.Int64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	case []any:
		for i := range v {
			v[i] = terms(t, v[i])
		}
	case map[string]any:
		if encoded, ok := v["$bytes"].(string); ok {
			b, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		for key := range v {
			v[key] = terms(t, v[key])
		}
	}
	return value
}

// realRows are rows written by Docket 0.3.0, by id, as CSV text by column.
func realRows(t *testing.T) map[int64]map[string]string {
	t.Helper()
	f, err := os.Open("testdata/docket_events.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[int64]map[string]string)
	for _, record := range records[1:] {
		row := make(map[string]string)
		for i, name := range records[0] {
			row[name] = record[i]
		}
		var id int64
		if err := json.Unmarshal([]byte(row["id"]), &id); err != nil {
			t.Fatal(err)
		}
		rows[id] = row
	}
	return rows
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.TrimPrefix(text, `\x`))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
