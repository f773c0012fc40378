package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// loaded writes n events of real shape, and exports them.
func (s *site) loaded(n int) {
	s.t.Helper()
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	if err := docketsim.Load(s.t.Context(), s.pool, "public", n, docketsim.LoadOptions{Age: time.Hour}); err != nil {
		s.t.Fatal(err)
	}
	command(s.t, s.env, "run", "--once").want(s.t, exitOK)
}

// reconcile runs the command and returns what it says.
func (s *site) reconcile(code int, args ...string) reconcileReport {
	s.t.Helper()
	r := command(s.t, s.env, append([]string{"reconcile", "--consumer", "analytics", "--json"}, args...)...)
	r.want(s.t, code)
	var report reconcileReport
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		s.t.Fatalf("%v\n%s", err, r.stdout)
	}
	return report
}

// told names the events about which a report has something to say, as
// verdict run/seq.
func (r *reconcileReport) told() (told []string) {
	for _, run := range r.Runs {
		for _, x := range []struct {
			word string
			list []eventPlace
		}{{"missing", run.Missing}, {"differs", run.Differs}, {"extra", run.Extra}, {"dead_letter", run.DeadLetters}, {"repaired", run.Repaired}} {
			for _, at := range x.list {
				told = append(told, fmt.Sprintf("%s %s/%d", x.word, run.RunID, at.Seq))
			}
		}
		if run.Gaps != nil || run.Unended {
			told = append(told, fmt.Sprintf("broken %s %v", run.RunID, run.Gaps))
		}
	}
	slices.Sort(told)
	return told
}

func (s *site) wantTold(r reconcileReport, want ...string) {
	s.t.Helper()
	want = slices.Sorted(slices.Values(want))
	if got := r.told(); !slices.Equal(got, want) {
		s.t.Fatalf("the report tells of\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// eventAt returns an event's run/seq.
func (s *site) eventAt(id int64) string {
	s.t.Helper()
	return pgtest.Value[string](s.t, s.pool, `SELECT run_id || '/' || seq FROM docket_events WHERE id = $1`, id)
}

// Of rows that were deleted and changed by hand in ClickHouse exactly these are
// named, those that are missing are sent again, and then all is well.
func TestReconcileClickHouse(t *testing.T) {
	s := newSite(t)
	w := s.toClickHouse()
	s.loaded(10_000)
	if r := s.reconcile(exitOK); r.Events != 10_000 || r.Copies != 10_000 || r.Verdict != verdictClean || r.RunsWhole == 0 || len(r.Runs) != 0 {
		t.Fatalf("report %+v", r)
	}
	gone := []int64{1, 4_999, 10_000}
	w.query("ALTER TABLE docket_events DELETE WHERE event_id IN (1, 4999, 10000) SETTINGS mutations_sync = 2")
	w.query(`ALTER TABLE docket_events UPDATE payload = '{"other":1}' WHERE event_id = 777 SETTINGS mutations_sync = 2`)
	var missing, repaired []string
	for _, id := range gone {
		missing, repaired = append(missing, "missing "+s.eventAt(id)), append(repaired, "repaired "+s.eventAt(id))
	}
	changed := "differs " + s.eventAt(777)
	r := s.reconcile(exitPerson)
	s.wantTold(r, append(missing, changed)...)
	if r.Missing != 3 || r.Differing != 1 || r.Extra != 0 || r.Verdict != verdictDiffers || len(r.Places) != 1 || r.Places[0].Field != "payload" {
		t.Errorf("report %+v", r)
	}
	s.wantTold(s.reconcile(exitPerson, "--identities"), missing...)
	command(t, s.env, "reconcile", "--consumer", "analytics", "--repair").want(t, exitUsage, "--reason")
	s.wantTold(s.reconcile(exitPerson, "--repair", "--reason", "deleted by hand"), append(repaired, changed)...)
	w.wantRows("docket_events", 10_000, 10_000)
	if n := pgtest.Value[int](t, s.pool, `SELECT count(*)::int FROM docket_export.audit WHERE command = 'reconcile --repair' AND reason = 'deleted by hand'`); n == 0 {
		t.Error("the repair is not in the audit")
	}
	if at := s.status("analytics"); at.Position.High != 10_000 || at.EventsAccepted != 10_000 {
		t.Errorf("the consumer was touched: %+v", at)
	}
	s.wantTold(s.reconcile(exitPerson), changed)
	w.query("ALTER TABLE docket_events DELETE WHERE event_id IN (1, 777, 4999, 10000) SETTINGS mutations_sync = 2")
	s.wantTold(s.reconcile(exitOK, "--repair", "--reason", "again"), append(repaired, strings.Replace(changed, "differs", "repaired", 1))...)
	s.reconcile(exitOK)
	command(t, s.env, "reconcile", "--consumer", "analytics").want(t, exitOK, "10000 events", "analytics is clean")
}

// The same over files: lines are deleted and changed, also in an open segment.
func TestReconcileFiles(t *testing.T) {
	s := newSite(t)
	s.env["CONSUMER_ANALYTICS_FILE_SEGMENT_BYTES"] = "1MiB"
	s.loaded(10_000)
	s.reconcile(exitOK)
	s.editLines(func(id int64, line string) []string {
		switch id {
		case 5, 6, 9_345:
			return nil
		case 777:
			return []string{strings.Replace(line, `"payload":{`, `"payload":{"x":1,`, 1)}
		case 6_000:
			return []string{line, line}
		case 6_001:
			return []string{line, strings.Replace(line, `"seq":`, `"seq":9`, 1)}
		}
		return []string{line}
	})
	events := []string{s.eventAt(5), s.eventAt(6), s.eventAt(9_345)}
	run, seq, _ := strings.Cut(s.eventAt(6_001), "/")
	rest := []string{"differs " + s.eventAt(777), "extra " + run + "/9" + seq}
	r := s.reconcile(exitPerson)
	s.wantTold(r, append(rest, "missing "+events[0], "missing "+events[1], "missing "+events[2])...)
	if r.Duplicates != 1 {
		t.Errorf("%d duplicates, want 1", r.Duplicates)
	}
	files := len(s.files())
	r = s.reconcile(exitPerson, "--repair", "--reason", "lost lines")
	s.wantTold(r, append(rest, "repaired "+events[0], "repaired "+events[1], "repaired "+events[2])...)
	if n := len(s.files()); n <= files {
		t.Errorf("%d files before and %d after the repair", files, n)
	}
	s.wantTold(s.reconcile(exitPerson), rest...)
	s.editLines(func(id int64, line string) []string {
		switch {
		case id == 777:
			return []string{strings.Replace(line, `"x":1,`, "", 1)}
		case id == 6_001 && strings.Contains(line, `"seq":9`+seq+`,`):
			return nil
		}
		return []string{line}
	})
	s.reconcile(exitOK)
	s.editLines(func(id int64, line string) []string { return []string{line, "no event\n"}[:1+int(id/10_000)] })
	if r := s.reconcile(exitOK); len(r.Remarks) != 1 || !strings.Contains(r.Remarks[0], "1 line of") {
		t.Errorf("remarks %q", r.Remarks)
	}
}

func (s *site) files() []string { return s.filesOf("analytics-*") }

func (s *site) filesOf(pattern string) []string {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.env["CONSUMER_ANALYTICS_FILE_DIR"], pattern))
	if err != nil {
		s.t.Fatal(err)
	}
	return files
}

// editLines puts other lines into the place of each line of the files.
func (s *site) editLines(edit func(id int64, line string) []string) {
	s.t.Helper()
	s.editFiles("analytics-*", edit)
}

func (s *site) editFiles(pattern string, edit func(id int64, line string) []string) {
	s.t.Helper()
	for _, path := range s.filesOf(pattern) {
		text, err := os.ReadFile(path)
		if err != nil {
			s.t.Fatal(err)
		}
		var b strings.Builder
		for line := range strings.Lines(string(text)) {
			var e struct {
				ID int64 `json:"event_id"`
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				s.t.Fatalf("%s: %q: %v", path, line, err)
			}
			for _, edited := range edit(e.ID, line) {
				b.WriteString(edited)
			}
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
}
