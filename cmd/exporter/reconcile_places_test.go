package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// places returns where a report says that copies are, as verdict line field.
func (r *reconcileReport) places() (texts []string) {
	for _, p := range r.Places {
		texts = append(texts, fmt.Sprint(p.Verdict, " ", p.File, ":", p.Line, " ", p.Field))
	}
	return texts
}

// A line that differs or is extra is named by file and line, and the first field
// in which it differs; a right one of the same event is not.
func TestReconcileLocates(t *testing.T) {
	s := newSite(t)
	s.loaded(12_000)
	run, seq, _ := strings.Cut(s.eventAt(6_001), "/")
	s.editLines(func(id int64, line string) []string {
		switch id {
		case 777:
			return []string{line, strings.Replace(line, `"payload":{`, `"payload":{"x":1,`, 1)}
		case 6_001:
			return []string{line, strings.Replace(line, `"seq":`, `"seq":9`, 1)}
		case 11_999:
			i := strings.Index(line, `,"tenant_id":`)
			return []string{line[:i] + line[i+strings.Index(line[i:], `,"graph_id":`):]}
		}
		return []string{line}
	})
	files := s.files()
	if len(files) != 1 {
		t.Fatalf("files %v", files)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	at := func(part string) string { // what stands before the line that has it
		before, _, _ := strings.Cut(string(text), part)
		return fmt.Sprint(strings.Count(before, "\n") + 1)
	}
	base := filepath.Base(files[0])
	differs, extra, lacks := at(`"payload":{"x":1,`), at(`"seq":9`+seq+`,"event_id":6001,`), at(`"event_id":11999,`)
	want := []string{"differs " + base + ":" + differs + " payload", "extra " + base + ":" + extra + " ", "differs " + base + ":" + lacks + " tenant_id"}
	slices.Sort(want)
	r := s.reconcile(exitPerson)
	if got := slices.Sorted(slices.Values(r.places())); !slices.Equal(got, want) {
		t.Errorf("places\n%q, want\n%q", got, want)
	}
	command(t, s.env, "reconcile", "--consumer", "analytics").want(t, exitPerson,
		"differs: "+base+" line "+differs+", "+s.eventAt(777)+" in payload\n", "extra: "+base+" line "+extra+", "+run+"/9"+seq+"\n")
	r = s.reconcile(exitPerson, "--identities")
	if got := r.places(); len(got) != 1 || got[0] != "extra "+base+":"+extra+" " {
		t.Errorf("places %q", got)
	}
}

// Where everything differs, the first hundred lines are located.
func TestReconcileLocatesTheFirst(t *testing.T) {
	s := newSite(t)
	s.loaded(500)
	s.editLines(func(_ int64, line string) []string { return []string{strings.Replace(line, `"step":`, `"step":1`, 1)} })
	if r := s.reconcile(exitPerson); r.Differing != 500 || len(r.Places) != 100 || r.Places[0].Field != "step" {
		t.Errorf("%d differ, %d places", r.Differing, len(r.Places))
	}
}

func TestFirstDifference(t *testing.T) {
	t.Parallel()
	const want = `{"a":1,"b":{"c":"d"},"e":null}`
	for line, field := range map[string]string{
		want:                                     "",
		`{"a":1, "b":{"c":"d"},"e":null}`:        "",
		`{"a":1,"b":{"c": "d"},"e":null}`:        "b",
		`{"a":1,"e":null}`:                       "b",
		`{"a":1,"b":{"c":"d"},"e":null,"f":1}`:   "f",
		`{"x":1,"a":1,"b":{"c":"d"},"e":null}`:   "a",
		`{"a":1,"b":{"c":"d}`:                    "b",
		`{"a":1,"b":{"c":"d"},"e":"null"}`:       "e",
		"":                                       "a",
		`{"a":1,"b":{"c":"d"},"e":null} trailer`: "",
	} {
		if got := firstDifference([]byte(line), []byte(want)); got != field {
			t.Errorf("%s differs first in %q, want %q", line, got, field)
		}
	}
}
