package etf_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/docket-exporter/exporter/sources/docket/etf"
)

func FuzzAppendJSON(f *testing.F) {
	for _, x := range fixtures(f) {
		f.Add(unhex(f, x.Hex))
	}
	for i, r := range rows(f) {
		if i%400 == 0 {
			f.Add(unhex(f, r.Payload))
			f.Add(unhex(f, r.Metadata))
		}
	}
	f.Add(holding(mapOf(mapOf(tuple(list(bin("a"))), float(1)), mapSet(bin("b"), integer(1)), clock{}.term(), integer(-1))))
	f.Fuzz(func(t *testing.T, src []byte) {
		var d etf.Decoder
		got, err := d.AppendJSON(nil, src)
		if err != nil {
			if v, ok := errors.AsType[*etf.VersionError](err); ok {
				if v.Offset < 0 || v.Offset > len(src) || v.Version == "1" || len(got) > 0 {
					t.Fatalf("%v, %s", err, got)
				}
				return
			}
			refused(t, got, err, len(src))
			return
		}
		if !json.Valid(got) {
			t.Fatalf("not JSON: %s", got)
		}
		if len(got) > 16*len(src) {
			t.Fatalf("%d bytes became %d", len(src), len(got))
		}
		again, err := d.AppendJSON([]byte("x"), bytes.Clone(src))
		if err != nil || !bytes.Equal(again[1:], got) {
			t.Fatalf("then %v, %s\nfirst %s", err, again, got)
		}
		bounded := etf.Decoder{MaxBytes: len(got)}
		if _, err := bounded.AppendJSON(nil, src); err != nil {
			t.Fatalf("refused at exactly its size: %v", err)
		}
		if len(got) > 2 {
			bounded.MaxBytes--
			if _, err := bounded.AppendJSON(nil, src); err == nil {
				t.Fatalf("accepted above its bound: %s", got)
			}
		}
		chosen := etf.Decoder{Keys: []string{"v", "errors"}}
		if got, err := chosen.AppendJSON(nil, src); err != nil || !json.Valid(got) {
			t.Fatalf("with keys: %v, %s", err, got)
		}
	})
}
