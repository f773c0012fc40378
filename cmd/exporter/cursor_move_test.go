package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgserver"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// wantUnmoved runs a command with and without --yes, and wants it to be refused
// before it says what it would do.
func (s *site) wantUnmoved(env map[string]string, args []string, code int, texts ...string) {
	s.t.Helper()
	before := s.exportStatus("analytics")
	for _, more := range [][]string{nil, {"--yes", "--take-over"}} {
		r := command(s.t, env, append(args, more...)...)
		r.want(s.t, code, texts...)
		if r.stdout != "" {
			s.t.Errorf("%s says:\n%s", args, r.stdout)
		}
	}
	if now := s.exportStatus("analytics"); !now.Position.Equal(before.Position) || now.Epoch != before.Epoch {
		s.t.Errorf("%s has moved it from %s to %s", args, before.Position, now.Position)
	}
}

// exported writes what cursor export prints of analytics, with a change, into a file.
func (s *site) exported(change func(string) string) (path string) {
	s.t.Helper()
	r := command(s.t, s.env, "cursor", "export", "analytics")
	r.want(s.t, exitOK)
	return writeText(s.t, change(r.stdout))
}

func writeText(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "positions.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A place is looked up in the Docket that the consumer has read, or nowhere.
func TestCursorMovesOnlyInTheSourceThatWasRead(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.apart()
	s.insert("r", 5)
	command(t, s.env, "run", "--once").want(t, exitOK)
	file := s.exported(func(text string) string { return strings.Replace(text, `"position": "5"`, `"position": "1"`, 1) })
	set := []string{"cursor", "set", "analytics", "latest", "--reason", "x"}
	load := []string{"cursor", "import", file, "--reason", "x"}

	other := pgtest.Cluster(t, pgserver.Options{}).URL("postgres")
	there := &site{t: t, dsn: other, pool: pgtest.Pool(t, other)}
	if err := docketsim.Install(t.Context(), there.pool, "public"); err != nil {
		t.Fatal(err)
	}
	there.insert("q", 2)
	env := maps.Clone(s.env)
	env["DOCKET_DATABASE_URL"] = other
	for _, args := range [][]string{set, load} {
		s.wantUnmoved(env, args, exitPerson, "system identifier", "exporter source adopt", "correct DOCKET_DATABASE_URL")
	}
	shown := command(t, env, "cursor", "show", "analytics")
	shown.want(t, exitOK, "what lies around the position is unknown", "system identifier")
	if strings.Contains(shown.stdout, "run q/") {
		t.Errorf("it shows events of another Docket:\n%s", shown.stdout)
	}

	dump := postgresProgram(t, nil, "pg_dump", "--schema=public", "-d", s.dsn)
	pgtest.Exec(t, s.pool, "DROP SCHEMA public CASCADE")
	postgresProgram(t, dump, "psql", "-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", "-d", s.dsn)
	for _, args := range [][]string{set, load} {
		s.wantUnmoved(s.env, args, exitPerson, "not the one that analytics has read", "dropped and made again", "source adopt --rewind-to")
	}
	fresh := []string{"cursor", "import", writeText(t, `{"version": 1, "docket_schema": "public", "consumers": [{"consumer": "feed", "position": "3"}]}`), "--reason", "x"}
	s.wantUnmoved(s.env, fresh, exitPerson, "not the one that analytics has read")
	command(t, s.env, "source", "adopt", "--reason", "restored", "--yes").want(t, exitOK)
	command(t, s.env, append(load, "--yes")...).want(t, exitOK, "analytics is at 1; it was at 5")
	command(t, s.env, append(fresh, "--yes")...).want(t, exitOK, "feed is at 3")
}

// Whoever paused a consumer because its source changed wants a decision about
// the source, which a move is not.
func TestCursorSetDoesNotSettleAChangedSource(t *testing.T) {
	s := newSite(t)
	s.env["EXPORT_DATABASE_URL"] = s.dsn
	s.insert("r", 5)
	command(t, s.env, "run", "--once").want(t, exitOK)
	pgtest.Exec(t, s.pool, `UPDATE docket_export.consumers SET paused_at = now(), paused_by = 'exporter', paused_reason = 'source_changed', paused_detail = 'it went back'`)
	set := []string{"cursor", "set", "analytics", "2", "--reason", "x"}
	s.wantUnmoved(s.env, set, exitPerson, "it went back", "exporter source show", "source adopt --rewind-to", "exporter consumer resume")
	command(t, s.env, "consumer", "resume", "analytics", "--reason", "x").want(t, exitOK)
	command(t, s.env, append(set, "--yes")...).want(t, exitOK, "analytics is at 2; it was at 5")
}

// What a file holds is verified as a place is, all of it before anything is changed.
func TestCursorImportVerifiesPositions(t *testing.T) {
	s := newSite(t)
	s.env["EXPORT_DATABASE_URL"], s.env["EXPORTER_LEASE_TTL"] = s.dsn, "60s"
	s.insert("r", 5)
	command(t, s.env, "run", "--once").want(t, exitOK)
	at := func(position, more string) []string {
		return []string{"cursor", "import", s.exported(func(text string) string {
			text = regexp.MustCompile(`"position": "\d"`).ReplaceAllLiteralString(text, `"position": "`+position+`"`)
			return strings.Replace(text, `"consumers": [`, `"consumers": [`+more, 1)
		}), "--reason", "x"}
	}
	const feed = `{"consumer": "feed", "position": "3", "events_accepted": 0},`
	for position, want := range map[string]string{
		"99999999": "consumer analytics: find \"99999999\" in \"public\".docket_events: no place in the events: the id sequence",
		"-3":       "consumer analytics: \"-3\" is no place in the events: it is below every id",
	} {
		s.wantUnmoved(s.env, at(position, feed), exitUsage, want)
	}
	whole := s.exported(func(text string) string { return text + "{}" })
	s.wantUnmoved(s.env, []string{"cursor", "import", whole, "--reason", "x"}, exitUsage, "something follows behind its end")
	if n := pgtest.Value[int](t, s.pool, `SELECT count(*) FROM docket_export.consumers`); n != 1 {
		t.Errorf("%d consumers, want the one there was", n)
	}

	command(t, s.env, "cursor", "set", "analytics", "2", "--reason", "x", "--yes").want(t, exitOK)
	r := command(t, s.env, "cursor", "import", writeText(t, `{"version": 1, "docket_schema": "public", "consumers": [`+feed+`{"consumer": "analytics", "position": "4"}]}`), "--reason", "x")
	r.want(t, exitUsage, "would move analytics from 2 to 4", "from there to now: 1 event; the next by id: 5, run r/5", "would make feed at 3", "from there to now: 2 events")
	if !strings.HasPrefix(r.stdout, "ids 3 to 4 (2 of them) would be left out: their events would never be delivered to analytics\n") {
		t.Errorf("what would be lost does not come first:\n%s", r.stdout)
	}

	pgtest.Exec(t, s.pool, `UPDATE docket_export.consumers SET owner = 'worker', lease_until = now() + interval '1 hour'`)
	command(t, s.env, at("4", feed)...).want(t, exitUsage, "it would be refused now: worker owns analytics; stop that process, or add --take-over")
	command(t, s.env, append(at("4", feed), "--yes")...).want(t, exitFailed, "owned by worker", "--take-over")
	if n := pgtest.Value[int](t, s.pool, `SELECT count(*) FROM docket_export.consumers`); n != 1 {
		t.Errorf("%d consumers after a refusal, want 1", n)
	}
	command(t, s.env, append(at("4", feed), "--yes", "--take-over")...).want(t, exitOK,
		"ids 3 to 4 (2 of them) are left out: their events are never delivered to analytics", "analytics is at 4; it was at 2", "feed is at 3")
	r = command(t, s.env, append(at("5", strings.Replace(feed, "3", "4", 1)), "--yes")...)
	if r.want(t, exitFailed, "consumer analytics is owned by worker"); s.status("feed").Position.High != 3 {
		t.Error("feed was moved although analytics cannot be")
	}
	command(t, s.env, at("4", "")...).want(t, exitOK, "analytics is at 4 already; nothing to do")
}

// Positions are of one server, which the file names.
func TestCursorImportOfAnotherServer(t *testing.T) {
	s := newSite(t)
	s.env["EXPORT_DATABASE_URL"] = s.dsn
	s.insert("r", 5)
	command(t, s.env, "run", "--once").want(t, exitOK)
	id := pgtest.Value[string](t, s.pool, `SELECT system_identifier::text FROM pg_control_system()`)
	field := `"system_identifier": "` + id + `",`
	command(t, s.env, "cursor", "export").want(t, exitOK, field)
	at := func(with string) []string {
		return []string{"cursor", "import", s.exported(func(text string) string {
			return strings.Replace(strings.Replace(text, field, with, 1), `"position": "5"`, `"position": "2"`, 1)
		}), "--reason", "x"}
	}
	s.wantUnmoved(s.env, at(`"system_identifier": "4711",`), exitUsage, "server with system identifier 4711", "DOCKET_DATABASE_URL leads to "+id, `take "system_identifier" out of the file`)
	command(t, s.env, at("")...).want(t, exitUsage, "would move analytics from 5 to 2")

	pgtest.Exec(t, s.pool, `DELETE FROM docket_export.consumers; DELETE FROM docket_export.source`)
	command(t, s.env, "cursor", "import", writeText(t, `{"version": 1, "docket_schema": "public", "consumers": [{"consumer": "analytics", "position": "3"}]}`), "--reason", "x", "--yes").want(t, exitOK, "analytics is at 3")
	if bound := pgtest.Value[string](t, s.pool, `SELECT system_identifier::text FROM docket_export.source`); bound != id {
		t.Errorf("the tables belong to %s, want %s, in which the position was verified", bound, id)
	}
}

// A position with many open ids is short for people, whole in JSON, and its
// short form is no place.
func TestLongPositionsAreShortened(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "off"
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.insert("r", 4000)
	pgtest.Exec(t, s.pool, "DELETE FROM docket_events WHERE id % 2 = 1")
	const short = "4000-{2000 open ids from 1 to 3999}"
	brief := func(r result, code int, texts ...string) {
		t.Helper()
		r.want(t, code, texts...)
		for line := range strings.Lines(r.stdout + r.stderr) {
			if len(line) > 200 {
				t.Errorf("a line of %d bytes: %.200s…", len(line), line)
			}
		}
	}
	const whole = "positions are shortened here; `exporter cursor show NAME|PLACE --json` has them whole"
	brief(command(t, s.env, "cursor", "show", "latest"), exitOK, "position    "+short, whole)
	set := []string{"cursor", "set", "analytics", "latest", "--reason", "x"}
	r := command(t, s.env, set...)
	brief(r, exitUsage, "would move analytics from 0 to "+short, whole)
	if !strings.HasPrefix(r.stdout, "ids 2 to 4000 (2000 of them) would be left out: their events would never be delivered to analytics\n") {
		t.Errorf("what would be lost does not come first:\n%s", r.stdout)
	}
	r = command(t, s.env, append(set, "--yes")...)
	brief(r, exitOK, "analytics is at "+short+"; it was at 0", whole)
	if !strings.HasPrefix(r.stdout, "ids 2 to 4000 (2000 of them) are left out: their events are never delivered to analytics\n") {
		t.Errorf("what is lost does not come first:\n%s", r.stdout)
	}
	brief(command(t, s.env, set...), exitOK, "already; nothing to do")
	brief(command(t, s.env, "cursor", "list"), exitOK, short, whole)
	brief(command(t, s.env, "cursor", "show", "analytics"), exitOK, short, whole)
	brief(command(t, s.env, "status"), exitOK, short)
	brief(command(t, s.env, "cursor", "set", "analytics", short, "--reason", "x"), exitUsage, "is a position that was shortened", "--json")

	at := s.status("analytics").Position
	for _, args := range [][]string{{"cursor", "show", "latest"}, {"cursor", "show", "analytics"}, {"cursor", "list"}} {
		r := command(t, s.env, append(args, "--json")...)
		var list []struct{ Position string }
		text := strings.TrimSpace(r.stdout)
		if !strings.HasPrefix(text, "[") {
			text = "[" + text + "]"
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 {
			t.Fatalf("%s: %v", args, err)
		}
		if got, err := exporter.ParsePosition(list[0].Position); err != nil || !got.Equal(at) {
			t.Errorf("%s --json: %.80s, %v", args, list[0].Position, err)
		}
	}
	if got, want := shortened(at.Holes.String()), "{2000 ids from 1 to 3999}"; got != want {
		t.Errorf("ids are %q, want %q", got, want)
	}
}

// A backfill that has ended has one word everywhere, and cannot be moved.
func TestEndedBackfills(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"], s.env["EXPORT_DATABASE_URL"] = "off", s.dsn
	s.insert("r", 5)
	command(t, s.env, "run", "--once").want(t, exitOK)
	command(t, s.env, "backfill", "--consumer", "analytics", "--from", "earliest", "--name", "finished").want(t, exitOK)
	command(t, s.env, "backfill", "--consumer", "analytics", "--from", "id:2", "--name", "cancelled", "--detach").want(t, exitOK)
	command(t, s.env, "backfill", "cancel", "cancelled", "--reason", "x").want(t, exitOK)
	for _, word := range []string{"finished", "cancelled"} { // also the name
		command(t, s.env, "backfill", "list", "--json").want(t, exitOK, `"state": "`+word+`"`)
		command(t, s.env, "cursor", "list", "--json").want(t, exitOK, `"state": "`+word+`"`, `"condition": "`+word+`"`, `"words": "`+word+`"`)
		command(t, s.env, "cursor", "list").want(t, exitOK, "backfill  "+word)
		command(t, s.env, "cursor", "show", word).want(t, exitOK, "state         "+word+"\n")
		if state := pgtest.Value[string](t, s.pool, `SELECT state FROM docket_export.export_status WHERE consumer = $1`, word); state != word {
			t.Errorf("the view says %s of %s", state, word)
		}
		command(t, s.env, "consumer", "pause", word, "--reason", "x").want(t, exitUsage, "the backfill is finished")
		for _, change := range []string{"pause", "resume"} {
			command(t, s.env, "backfill", change, word, "--reason", "x").want(t, exitOK, "nothing was changed")
		}
		file := writeText(t, `{"version": 1, "docket_schema": "public", "consumers": [{"consumer": "`+word+`", "position": "1"}]}`)
		for _, args := range [][]string{{"cursor", "set", word, "1"}, {"cursor", "import", file}} {
			s.wantUnmoved(s.env, append(args, "--reason", "x"), exitUsage, word+" is a backfill that is "+word+", and never moves again")
		}
	}
}

// An import takes over what a running process owns, like a move.
func TestCursorImportTakesOver(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert("r", 4)
	c := start(t, s.env, "", "run")
	s.await("analytics", 4)
	pgtest.Until(t, 20*time.Second, "the position", func() bool { return s.status("analytics").Position.High == 4 })
	file := s.exported(func(text string) string { return strings.Replace(text, `"position": "4"`, `"position": "2"`, 1) })
	command(t, s.env, "cursor", "import", file, "--reason", "x", "--yes", "--take-over").want(t, exitOK, "ids 3 to 4 (2 of them) are read and their events delivered again", "analytics is at 2; it was at 4")
	s.await("analytics", 6)
	c.signal(syscall.SIGTERM)
	c.wait(20 * time.Second)
}
