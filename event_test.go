package exporter_test

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/docket-exporter/exporter"
)

func TestIdentityKey(t *testing.T) {
	for documented, identity := range map[string]exporter.Identity{
		"5:run-1:7:120345":               {RunID: "run-1", Seq: 7, EventID: 120345},
		"0::0:0":                         {},
		"6:a:1:é:-1:9223372036854775807": {RunID: "a:1:é", Seq: -1, EventID: math.MaxInt64},
	} {
		sum := sha256.Sum256([]byte(documented))
		if got, want := identity.Key(), hex.EncodeToString(sum[:]); got != want {
			t.Errorf("key of %+v is %s, want %s", identity, got, want)
		}
		if got := string(identity.AppendKey([]byte("key="))); got != "key="+identity.Key() {
			t.Errorf("appended %s", got)
		}
	}
}

// identities draws from few values, with run ids that look like the encoding.
func identities() *rapid.Generator[exporter.Identity] {
	run := rapid.StringOfN(rapid.RuneFrom([]rune(":12a")), 0, 6, -1)
	return rapid.Custom(func(t *rapid.T) exporter.Identity {
		return exporter.Identity{
			RunID: run.Draw(t, "run"),
			Seq:   rapid.Int64Range(0, 22).Draw(t, "seq"), EventID: rapid.Int64Range(0, 22).Draw(t, "id"),
		}
	})
}

func TestIdentityKeysDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := map[string]exporter.Identity{}
		for _, i := range rapid.SliceOfNDistinct(identities(), 2, 30, rapid.ID).Draw(t, "identities") {
			if j, taken := keys[i.Key()]; taken {
				t.Fatalf("%+v and %+v have one key", i, j)
			}
			keys[i.Key()] = i
		}
	})
}

func TestIdentityOrderIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := identities().Draw(t, "a"), identities().Draw(t, "b"), identities().Draw(t, "c")
		if (a.Compare(b) == 0) != (a == b) || a.Compare(b) != -b.Compare(a) {
			t.Fatalf("%+v and %+v: %d and %d", a, b, a.Compare(b), b.Compare(a))
		}
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 && a.Compare(c) > 0 {
			t.Fatalf("%+v, %+v, %+v: not transitive", a, b, c)
		}
		if a.RunID == b.RunID && a.Seq < b.Seq && a.Compare(b) >= 0 {
			t.Fatalf("%+v is not before %+v", a, b)
		}
	})
}

func TestBatchSort(t *testing.T) {
	b := exporter.Batch{Events: []exporter.Event{{RunID: "b", Seq: 1, ID: 1}, {RunID: "a", Seq: 2, ID: 2}, {RunID: "a", Seq: 1, ID: 3}, {RunID: "B", Seq: 9, ID: 4}}}
	b.Sort(nil)
	var ids []int64
	for _, e := range b.Events {
		ids = append(ids, e.ID)
	}
	if !slices.Equal(ids, []int64{4, 3, 2, 1}) {
		t.Errorf("order %v", ids)
	}
}

func TestBatchHash(t *testing.T) {
	one, two := exporter.Event{RunID: "a", Seq: 1, ID: 1}, exporter.Event{RunID: "a", Seq: 2, ID: 2}
	poison := func(e exporter.Event) []exporter.Rejection { return []exporter.Rejection{{Event: e}} }
	batches := []exporter.Batch{
		{},
		{Events: []exporter.Event{one}},
		{Events: []exporter.Event{two}},
		{Events: []exporter.Event{one, two}},
		{Events: []exporter.Event{two, one}},
		{Poison: poison(one)},
		{Events: []exporter.Event{one}, Poison: poison(two)},
	}
	seen := map[[sha256.Size]byte]int{}
	for i, b := range batches {
		if j, taken := seen[b.Hash()]; taken {
			t.Errorf("batches %d and %d have one hash", i, j)
		}
		seen[b.Hash()] = i
	}
	later := exporter.Batch{Number: 9, Attempt: 3, Events: []exporter.Event{{RunID: "a", Seq: 1, ID: 1, Type: "x", Payload: []byte("1")}}}
	if later.Hash() != batches[1].Hash() {
		t.Error("the hash covers more than identities")
	}
}
