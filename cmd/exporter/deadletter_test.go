package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

// reviewed are the flags of a decision.
func reviewed(args ...string) []string {
	return append([]string{"deadletter"}, append(args, "--reviewed-by", "eve", "--reason", "looked at it")...)
}

// letterID returns the dead letter of an event.
func (s *site) letterID(run string, seq int) string {
	s.t.Helper()
	return fmt.Sprint(pgtest.Value[int64](s.t, s.pool, `SELECT id FROM docket_export.dead_letters WHERE run_id = $1 AND seq = $2`, run, seq))
}

func (s *site) letters(where string) int {
	s.t.Helper()
	return pgtest.Value[int](s.t, s.pool, `SELECT count(*)::int FROM docket_export.dead_letters WHERE `+where)
}

// A run is held behind its dead letter until a person has decided, also over
// restarts and after Docket has pruned its rows; then it goes on.
func TestHeldRunIsReleased(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.env["CONSUMER_ANALYTICS_ON_POISON"] = "hold_run"
	s.insert("r", 4)
	s.insert("other", 2)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET payload = '\x8368' WHERE run_id = 'r' AND seq = 2`)
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 6")
	s.insert("r", 1)
	s.insert("other", 1)
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 8")
	if got := s.delivered("analytics"); !slices.Equal(got, []string{"other/1", "other/2", "r/1", "other/3"}) {
		t.Fatalf("delivered %v", got)
	}
	if at := s.status("analytics"); at.DeadLettersOpen != 1 || at.DeadLettersHeld != 3 {
		t.Fatalf("%d open, %d held", at.DeadLettersOpen, at.DeadLettersHeld)
	}
	pgtest.Exec(t, s.pool, `DELETE FROM docket_events`)

	command(t, s.env, "deadletter", "list").want(t, exitOK, "undecodable", "held", "waits for 2 of its run")
	command(t, s.env, "deadletter", "replay", "--run", "r", "--reviewed-by", "eve\xff", "--reason", "r", "--yes").want(t, exitUsage, "UTF-8")
	command(t, s.env, reviewed("replay", "--run", "r")...).want(t, exitUsage, "would replay 4 dead letters", "--yes")
	command(t, s.env, reviewed("replay", "--run", "r", "--yes")...).want(t, exitPerson, "rejected", "undecodable", "waits")
	command(t, s.env, reviewed("replay", "--id", s.letterID("r", 4), "--yes")...).want(t, exitPerson, "an earlier event of its run must be")
	command(t, s.env, reviewed("discard", "--id", s.letterID("r", 2), "--dry-run")...).want(t, exitOK, "would discard 1 dead letter")
	command(t, s.env, reviewed("discard", "--id", s.letterID("r", 2))...).want(t, exitOK, "discarded")
	command(t, s.env, reviewed("replay", "--id", s.letterID("r", 3))...).want(t, exitUsage, "would replay 1 dead letter, and then 2 events held behind")
	command(t, s.env, reviewed("replay", "--id", s.letterID("r", 3), "--yes")...).want(t, exitOK, "replayed")
	s.insert("r", 5) // seq begins at 1 again, the table being empty
	pgtest.Exec(t, s.pool, `DELETE FROM docket_events WHERE seq < 5`)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET seq = seq + 1`)
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up")
	want := []string{"other/1", "other/2", "r/1", "other/3", "r/6", "r/3", "r/4", "r/5"} // the replay's file comes last
	if got := s.delivered("analytics"); !slices.Equal(got, want) {
		t.Fatalf("delivered %v, want %v", got, want)
	}
	if n := s.letters("state IN ('open', 'held')"); n != 0 {
		t.Fatalf("%d dead letters still wait", n)
	}
	again := command(t, s.env, reviewed("replay", "--id", s.letterID("r", 3)+","+s.letterID("r", 2), "--json")...)
	again.want(t, exitUsage, "it is replayed already", "it is discarded already")
	command(t, s.env, "deadletter", "show", s.letterID("r", 2), "--payload").want(t, exitOK, "open → discarded: looked at it", "open → open", "eve", "undecodable")
	command(t, s.env, reviewed("purge", "--decided-before", "0s")...).want(t, exitUsage, "would delete 4")
	command(t, s.env, reviewed("purge", "--decided-before", "0s", "--yes")...).want(t, exitOK, "deleted 4")
	command(t, s.env, reviewed("purge", "--decided-before", "0s")...).want(t, exitOK, "nothing to delete")
}

// Events that came too late are kept, and go all the same when a person says so.
func TestExpiredEventsAreKept(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.env["CONSUMER_ANALYTICS_MAX_AGE"] = "1h"
	s.env["CONSUMER_ANALYTICS_MAX_DEAD_LETTERS"] = "1"
	s.env["CONSUMER_ANALYTICS_ON_POISON"] = "hold_run"
	s.insert("r", 5)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET occurred_at = occurred_at - interval '1 hour' WHERE seq <= 3`)
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 5")
	if got := s.delivered("analytics"); !slices.Equal(got, []string{"r/4", "r/5"}) || s.letters("class = 'expired' AND attempts = 0") != 3 {
		t.Fatalf("delivered %v, %d expired", got, s.letters("class = 'expired'"))
	}
	command(t, s.env, reviewed("replay", "--class", "expired", "--yes")...).want(t, exitOK, "replayed")
	if got := s.delivered("analytics"); !slices.Equal(got, []string{"r/4", "r/5", "r/1", "r/2", "r/3"}) {
		t.Fatalf("delivered %v", got)
	}
}

// A deadline that passes between a crash and the restart takes events out of the
// request: what is left has another token, so the server stores it.
func TestDeadlineBetweenCrashAndRestart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.toEmptyClickHouse()
	s.env["CONSUMER_ANALYTICS_CLICKHOUSE_CREATE_TABLE"] = "true"
	s.env["EXPORTER_LEASE_TTL"] = "1s"
	s.insert("r", 6)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET occurred_at = occurred_at - interval '2 hours' WHERE seq <= 3`)
	c := start(t, s.env, accepted+" 1", "run")
	c.awaitLine("at " + accepted)
	c.kill()
	s.env["CONSUMER_ANALYTICS_MAX_AGE"] = "1h"
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	again := start(t, s.env, "", "run")
	pgtest.Until(t, 30*time.Second, "the batch to be done", func() bool { return s.status("analytics").Position.High == 6 })
	again.kill()
	got := w.query("SELECT countIf(seq <= 3), countIf(seq > 3), uniqExact(seq) FROM docket_events")
	if got != "3\t6\t6" || s.letters("class = 'expired'") != 3 {
		t.Fatalf("ClickHouse holds %q; %d expired", got, s.letters("class = 'expired'"))
	}
}

// Too many dead letters pause the consumer with nothing skipped; a person who
// resumes lets them through.
func TestTooManyDeadLettersPause(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.env["CONSUMER_ANALYTICS_MAX_DEAD_LETTERS"] = "2"
	s.insert("r", 5)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET payload = '\x8368' WHERE seq <= 3`)
	command(t, s.env, "run", "--once").want(t, exitPerson, "dead_letters", "CONSUMER_ANALYTICS_MAX_DEAD_LETTERS=2", "exporter deadletter list --consumer analytics")
	if at := s.status("analytics"); at.Paused == nil || at.Position.High != 0 || at.Intent == nil || at.DeadLetters != 0 {
		t.Fatalf("status %+v", at)
	}
	command(t, s.env, "consumer", "resume", "analytics", "--reason", "known").want(t, exitOK)
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 5")
	if at := s.status("analytics"); at.DeadLetters != 3 {
		t.Fatalf("status %+v", at)
	}
	s.wantLines("analytics", "r/4", "r/5")
}

func (s *site) wantLines(consumer string, want ...string) {
	s.t.Helper()
	if got := s.delivered(consumer); !slices.Equal(got, want) {
		s.t.Fatalf("%s delivered %v, want %v", consumer, got, want)
	}
}

// An account or an address that the destination refuses is nobody's poison: the
// consumer pauses, and no event becomes a dead letter.
func TestRefusedAccountMakesNoDeadLetters(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.env["CONSUMER_ANALYTICS_SINK"] = "clickhouse"
	delete(s.env, "CONSUMER_ANALYTICS_FILE_DIR")
	s.insert("r", 3)
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		s.env["CONSUMER_ANALYTICS_CLICKHOUSE_DSN"] = server.URL + "/default"
		command(t, s.env, "run", "--once").want(t, exitPerson, fmt.Sprint(status), "CLICKHOUSE_DSN")
		server.Close()
		if at := s.status("analytics"); at.Paused == nil || at.Paused.Reason != "sink" || at.DeadLetters != 0 || at.Position.High != 0 {
			t.Fatalf("after %d: %+v", status, at)
		}
		command(t, s.env, "consumer", "resume", "analytics", "--reason", "next one").want(t, exitOK)
	}
}

// A replay that is killed keeps its claim until that expires. The owner goes on
// beside it, and the letters can be replayed then.
func TestKilledReplay(t *testing.T) {
	s := newSite(t)
	s.env["CONSUMER_ANALYTICS_MAX_AGE"] = "1h"
	s.insert("old", 4)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET occurred_at = occurred_at - interval '1 day'`)
	exporter := start(t, s.env, "", "run")
	pgtest.Until(t, 30*time.Second, "four dead letters", func() bool { return s.letters("true") == 4 })
	replay := start(t, s.env, midDeliver+" 1", reviewed("replay", "--class", "expired", "--yes")...)
	replay.awaitLine("at " + midDeliver)
	s.insert("new", 3)
	pgtest.Until(t, 30*time.Second, "the owner to go on", func() bool { return s.status("analytics").Position.High == 7 })
	replay.kill()
	command(t, s.env, reviewed("discard", "--run", "old", "--yes")...).want(t, exitUsage, "refused", "a replay has it")
	command(t, s.env, reviewed("replay", "--run", "old", "--yes")...).want(t, exitUsage, "refused", "another replay has it until")
	pgtest.Exec(t, s.pool, `UPDATE docket_export.dead_letters SET claimed_until = clock_timestamp() - interval '1 second'`)
	command(t, s.env, reviewed("replay", "--run", "old", "--yes")...).want(t, exitOK, "replayed")
	exporter.kill()
	seen := map[string]int{}
	for _, e := range s.delivered("analytics") {
		seen[e]++
	}
	if len(seen) != 7 || s.letters("state = 'replayed' AND claimed_by IS NULL") != 4 {
		t.Fatalf("delivered %v", seen)
	}
	for e, n := range seen {
		if n > 2 || n > 1 && !strings.HasPrefix(e, "old/") {
			t.Errorf("%s came %d times", e, n)
		}
	}
}

// While dead letters cannot be written the position holds, the error says what
// to grant, and nothing is lost once it is granted.
func TestDeadLettersThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	role := "exporter_" + strings.ToLower(rand.Text())
	pgtest.Exec(t, s.pool, "CREATE ROLE "+role+" LOGIN SUPERUSER")
	t.Cleanup(func() {
		for _, sql := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			if _, err := s.pool.Exec(context.Background(), sql); err != nil {
				t.Error(err)
			}
		}
	})
	pgtest.Exec(t, s.pool, "ALTER ROLE "+role+" NOSUPERUSER")
	pgtest.Exec(t, s.pool, "GRANT USAGE ON SCHEMA docket_export TO "+role)
	pgtest.Exec(t, s.pool, "GRANT ALL ON ALL TABLES IN SCHEMA docket_export TO "+role)
	pgtest.Exec(t, s.pool, "REVOKE INSERT ON docket_export.dead_letters FROM "+role)
	as, err := url.Parse(s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	as.User = url.User(role)
	s.env["EXPORT_DATABASE_URL"] = as.String()
	s.insert("r", 3)
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET payload = '\x8368' WHERE seq = 2`)
	c := start(t, s.env, "", "run")
	pgtest.Until(t, 30*time.Second, "the error to be shown", func() bool {
		return pgtest.Value[int](t, s.pool, `SELECT count(*)::int FROM docket_export.export_status WHERE last_error LIKE '%INSERT and UPDATE on dead_letters are not granted%'`) == 1
	})
	if at := s.status("analytics"); at.Position.High != 0 || at.Intent == nil {
		t.Fatalf("status %+v", at)
	}
	pgtest.Exec(t, s.pool, "GRANT INSERT ON docket_export.dead_letters TO "+role)
	pgtest.Until(t, 30*time.Second, "progress", func() bool { return s.status("analytics").Position.High == 3 })
	c.kill()
	if s.letters("state = 'open' AND seq = 2") != 1 {
		t.Error("the dead letter is missing")
	}
	s.wantLines("analytics", "r/1", "r/3")
}

// What a table refuses is kept, outlives Docket's rows, and is replayed with its
// identity once the table takes it; a replay made twice is dropped by its token.
func TestReplayOverClickHouse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.toClickHouse()
	s.env["EXPORTER_HTTP_ADDR"] = "127.0.0.1:0"
	s.env["CONSUMER_ANALYTICS_MAX_ATTEMPTS"] = "2"
	w.query("ALTER TABLE docket_events ADD CONSTRAINT no_poison CHECK seq < 6 OR run_id = 'good'")
	s.insert("good", 10)
	s.insert("bad", 10)
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 20")
	if n := s.letters("state = 'open' AND class = 'refused'"); n != 5 {
		t.Fatalf("%d dead letters, want 5", n)
	}
	pgtest.Exec(t, s.pool, "DELETE FROM docket_events")
	three := strings.Join([]string{s.letterID("bad", 6), s.letterID("bad", 7), s.letterID("bad", 8)}, ",")
	command(t, s.env, reviewed("replay", "--id", three, "--yes")...).want(t, exitPerson, "rejected", "no_poison")
	w.query("ALTER TABLE docket_events DROP CONSTRAINT no_poison")
	got := command(t, s.env, reviewed("replay", "--id", three, "--yes", "--json")...)
	got.want(t, exitOK)
	var answers []letterAnswer
	if err := json.Unmarshal([]byte(got.stdout), &answers); err != nil || len(answers) != 3 || answers[2].Result != answerReplayed || answers[2].EventID != 18 {
		t.Fatalf("answers %+v, %v", answers, err)
	}
	command(t, s.env, reviewed("discard", "--run", "bad", "--yes")...).want(t, exitOK, "discarded")
	pgtest.Exec(t, s.pool, `UPDATE docket_export.dead_letters SET state = 'open' WHERE state = 'replayed'`) // as if the record had not come through
	command(t, s.env, reviewed("replay", "--id", three, "--yes")...).want(t, exitOK)
	if got := w.query("SELECT count(), uniqExact(run_id, seq, event_id), max(event_id) FROM docket_events"); got != "18\t18\t18" {
		t.Fatalf("ClickHouse holds %q rows, identities, and as highest id", got)
	}
	if n := pgtest.Value[int](t, s.pool, `SELECT count(*)::int FROM docket_export.audit WHERE who = 'eve' AND command LIKE 'deadletter %' AND after ? 'state'`); n != 11 {
		t.Errorf("%d audit rows; want 3 rejected, 3 replayed, 2 discarded, 3 replayed", n)
	}
}
