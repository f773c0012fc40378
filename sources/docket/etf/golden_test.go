package etf_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/docket-exporter/exporter/sources/docket/etf"
)

// fixture is a term written by Erlang and the verdict of Docket's own decoder.
type fixture struct {
	Name         string  `json:"name"`
	Valid        bool    `json:"valid"`
	Hex          string  `json:"hex"`
	ExpectedJSON *string `json:"expected_json"` // nil on a valid one: must decode
}

// row is a stored event and Docket's own decoding of it.
type row struct {
	ID           int64           `json:"id"`
	Payload      string          `json:"payload"`
	Metadata     string          `json:"metadata"`
	PayloadJSON  json.RawMessage `json:"payload_json"`
	MetadataJSON json.RawMessage `json:"metadata_json"`
}

func readLines[T any](t testing.TB, path string) []T {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(path, ".gz") {
		r, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if _, err := out.ReadFrom(r); err != nil {
			t.Fatal(err)
		}
		raw = out.Bytes()
	}
	var all []T
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, len(raw)+1)
	for lines.Scan() {
		var one T
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		t.Fatalf("%s is empty", path)
	}
	return all
}

func fixtures(t testing.TB) []fixture { return readLines[fixture](t, "testdata/etf_fixtures.jsonl") }

func rows(t testing.TB) []row { return readLines[row](t, "testdata/docket_events.jsonl.gz") }

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// value parses JSON so that numbers keep their text and keys their names.
func value(t testing.TB, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, text)
	}
	if d.More() {
		t.Fatalf("more than one value: %s", text)
	}
	return v
}

func same(t testing.TB, got, want []byte) {
	t.Helper()
	if !reflect.DeepEqual(value(t, got), value(t, want)) {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestRealRows(t *testing.T) {
	var d etf.Decoder
	for _, r := range rows(t) {
		for _, c := range []struct {
			hex  string
			want []byte
		}{{r.Payload, r.PayloadJSON}, {r.Metadata, r.MetadataJSON}} {
			got, err := d.AppendJSON(nil, unhex(t, c.hex))
			if err != nil {
				t.Fatalf("event %d: %v", r.ID, err)
			}
			same(t, got, c.want)
		}
	}
}

func TestFixtures(t *testing.T) {
	var d etf.Decoder
	for _, f := range fixtures(t) {
		t.Run(f.Name, func(t *testing.T) {
			src := unhex(t, f.Hex)
			got, err := d.AppendJSON([]byte("kept"), src)
			if !bytes.HasPrefix(got, []byte("kept")) {
				t.Fatalf("dst was changed: %s", got)
			}
			got = got[4:]
			switch {
			case f.Name == "bad_unknown_atom": // bad only for a node that does not know it
			case !f.Valid:
				refused(t, got, err, len(src))
			case err != nil:
				t.Fatal(err)
			case f.ExpectedJSON != nil:
				same(t, got, []byte(*f.ExpectedJSON))
			default:
				value(t, got)
			}
		})
	}
}

// refused expects a syntax error that names an offset within the term.
func refused(t testing.TB, got []byte, err error, size int) {
	t.Helper()
	wrong, ok := errors.AsType[*etf.SyntaxError](err)
	if !ok {
		t.Fatalf("not refused with a syntax error: %v, %s", err, got)
	}
	if len(got) > 0 {
		t.Errorf("bytes were appended: %s", got)
	}
	if wrong.Offset < 0 || wrong.Offset > size || !strings.Contains(wrong.Error(), "byte ") {
		t.Errorf("no offset within %d bytes: %v", size, wrong)
	}
}

func refusedTerm(t testing.TB, src []byte) {
	t.Helper()
	var d etf.Decoder
	got, err := d.AppendJSON(nil, src)
	refused(t, got, err, len(src))
}
