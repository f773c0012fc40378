package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

func TestCursorShowExplainsAPlace(t *testing.T) {
	s := newSite(t)
	s.insert("r1", 3)
	s.insert("a/b:c", 2)
	for place, want := range map[string][]string{
		"earliest":            {"position    0", "last done   none", "1, run r1/1", "5 events", "the highest id is 5"},
		"latest":              {"position    5", "5, run a/b:c/2", "next by id  none", "0 events; the highest id is 5"},
		"2-{[1,1]}":           {"open ids    1", "last done   2, run r1/2", "3, run r1/3", "4 events"},
		"id:4":                {"position    3", "4, run a/b:c/1", "2 events"},
		"run:r1/2":            {"position    1", "2, run r1/2", "4 events"},
		"run:a/b:c":           {"position    3", "4, run a/b:c/1"},
		"time:2026-01-31":     {"position    0", "5 events"},
		"2026-11-29T10:00:00": nil,
	} {
		command(t, s.env, "cursor", "show", place).want(t, exitOK, want...)
	}
	for place, want := range map[string]string{
		"run:nobody": `run "nobody" has no events here`,
		"99":         "its events do not exist yet",
		"id:x":       "want a whole number after id:",
		"noon!":      "write earliest, latest",
	} {
		command(t, s.env, "cursor", "show", place).want(t, exitUsage, want)
	}
	var got placeReport
	r := command(t, s.env, "cursor", "show", "run:r1/3", "--json")
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || got.Position != "2" || got.Next.Seq != 3 || got.Done.EventID != 2 || got.Events != 3 || !got.Exact {
		t.Errorf("got %+v, %v", got, err)
	}
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.insert("r1", 1)
	command(t, s.env, "cursor", "show", "analytics").want(t, exitOK, "accepted", "5 events", "last done", "5, run a/b:c/2", "next by id", "6, run r1/4", "1 event,")
}

// A move back delivers the same events again; a consumer that is owned goes on
// from the new place when it is taken over.
func TestCursorSet(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.insert("r", 4)
	c := start(t, s.env, "", "run")
	s.await("analytics", 4)
	pgtest.Until(t, 20*time.Second, "the position", func() bool { return s.status("analytics").Position.High == 4 })
	set := []string{"cursor", "set", "analytics", "run:r/3", "--reason", "lost downstream"}
	command(t, s.env, set...).want(t, exitUsage, "would move analytics from 4 to 2", "ids 3 to 4 (2 of them) would be read and their events delivered again",
		"2 events", "3, run r/3", "add --take-over", "nothing was changed; add --yes")
	command(t, s.env, append(set, "--yes")...).want(t, exitFailed, "owned by", "add --take-over")
	command(t, s.env, append(set, "--yes", "--take-over")...).want(t, exitOK, "analytics is at 2; it was at 4")
	s.await("analytics", 6)
	s.insert("r", 1)
	s.await("analytics", 7)
	if got := strings.Join(s.delivered("analytics"), " "); got != "r/1 r/2 r/3 r/4 r/3 r/4 r/5" {
		t.Errorf("delivered %s", got)
	}
	c.signal(syscall.SIGTERM)
	c.wait(20 * time.Second)
	s.insert("r", 2)
	command(t, s.env, "cursor", "set", "analytics", "id:7", "--reason", "skip", "--yes").want(t, exitOK, "analytics is at 6")
	command(t, s.env, "cursor", "set", "analytics", "latest", "--reason", "skip").want(t, exitUsage, "id", "7 would be left out: their events would never be delivered")
	command(t, s.env, "run", "--once").want(t, exitOK)
	if got := s.delivered("analytics"); len(got) != 8 || got[7] != "r/7" {
		t.Errorf("delivered %v", got)
	}
	again := command(t, s.env, "cursor", "set", "analytics", "time:2999-01-01", "--reason", "twice")
	again.want(t, exitOK, "analytics is at 7 already; nothing to do", "time:2999-01-01 is still to come: it is like latest")
	audited := pgtest.Value[int](t, s.pool, "SELECT count(*) FROM docket_export.audit WHERE command = 'set' AND reason IN ('lost downstream', 'skip') AND before IS NOT NULL")
	if audited != 2 {
		t.Errorf("%d moves are in the audit, want 2", audited)
	}
	command(t, s.env, "cursor", "set", "analytics", "latest").want(t, exitUsage, "--reason")
	command(t, s.env, "cursor", "set", "nobody", "latest", "--reason", "x").want(t, exitUsage, "there is no consumer")
}

func TestCursorExportAndImport(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.insert("r", 4)
	command(t, s.env, "run", "--once").want(t, exitOK)
	exported := command(t, s.env, "cursor", "export")
	exported.want(t, exitOK, `"consumer": "analytics"`, `"position": "4"`)
	file := filepath.Join(t.TempDir(), "positions.json")
	text := strings.Replace(exported.stdout, `"position": "4"`, `"position": "2"`, 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, s.env, "cursor", "import", file, "--reason", "move").want(t, exitUsage, "would move analytics from 4 to 2", "add --yes")
	command(t, s.env, "cursor", "import", file, "--reason", "move", "--yes").want(t, exitOK, "analytics is at 2")
	command(t, s.env, "consumer", "remove", "analytics", "--reason", "move", "--yes").want(t, exitOK)
	command(t, s.env, "cursor", "import", file, "--reason", "move", "--yes").want(t, exitOK, "analytics is at 2")
	command(t, s.env, "run", "--once").want(t, exitOK)
	if got := strings.Join(s.delivered("analytics"), " "); got != "r/1 r/2 r/3 r/4 r/3 r/4" {
		t.Errorf("delivered %s", got)
	}
	for text, want := range map[string]string{
		`{}`: "version 0", `{"version":1}`: "holds no consumer", `nonsense`: "not what `exporter cursor export` writes",
		`{"version":1,"consumers":[{"consumer":"a","position":"x"}]}`: "consumer a: parse position",
		strings.Replace(text, `"public"`, `"other"`, 1):               "DOCKET_SCHEMA is public",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		command(t, s.env, "cursor", "import", file, "--reason", "move", "--yes").want(t, exitUsage, want)
	}
	command(t, s.env, "cursor", "import", file+".none", "--reason", "move").want(t, exitUsage, "no such file")
}
