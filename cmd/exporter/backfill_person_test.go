package main

import (
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

// A command that is refused leaves a backfill to whoever has it, with its rate.
func TestRefusedBackfillChangesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert("a", 300)
	s.env["EXPORTER_LEASE_TTL"] = "2s"
	c := start(t, s.env, "", "run")
	s.await("analytics", 300)
	ask := []string{"backfill", "--consumer", "analytics", "--from", "earliest", "--name", "history"}
	detached := append(slices.Clone(ask), "--detach", "--rate")
	command(t, s.env, append(detached, "20/s")...).want(t, exitOK, "a running exporter that has analytics works on it")
	pgtest.Until(t, 20*time.Second, "the exporter to take it up", func() bool { return s.accepted("history") > 0 })
	was := s.spec("history")
	command(t, s.env, ask...).want(t, exitFailed, "another process works on it, and nothing was changed", "exporter backfill show history")
	command(t, s.env, append(detached, "30/s")...).want(t, exitFailed, "nothing was changed", "exporter backfill pause history")
	command(t, s.env, append(detached, "20/s")...).want(t, exitOK, "goes on at", "works on it")
	command(t, s.env, "backfill", "pause", "history", "--reason", "busy").want(t, exitOK)
	command(t, s.env, ask...).want(t, exitPerson, "is paused by", "backfill resume history")
	if now := s.spec("history"); now != was {
		t.Fatalf("it was %s, and is now %s", was, now)
	}
	s.wantAudit("history", "create", "pause")
	pgtest.Until(t, 20*time.Second, "the owner to stop", func() bool { return !s.status("history").LeaseLive })
	command(t, s.env, append(detached, "10000/s")...).want(t, exitOK, "it is paused by", "backfill resume history")
	command(t, s.env, "backfill", "resume", "history", "--reason", "calm").want(t, exitOK)
	pgtest.Until(t, 20*time.Second, "the exporter to finish it", func() bool { return s.status("history").Finished != nil })
	wantOnce(t, s.lines("history"), 300)
	s.wantAudit("history", "create", "pause", "change", "resume", "finish")
	c.kill()
}

// What is asked for anew counts once the process that was killed has no lease.
func TestBackfillChangesItsRateWithItsOwner(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert("a", 300)
	s.env["EXPORTER_LEASE_TTL"] = "3s"
	command(t, s.env, "run", "--once").want(t, exitOK)
	ask := []string{"backfill", "--consumer", "analytics", "--from", "earliest", "--name", "history"}
	c := start(t, s.env, "", append(ask, "--rate", "20/s")...)
	pgtest.Until(t, 20*time.Second, "the first events", func() bool { return s.accepted("history") > 0 })
	c.kill()
	command(t, s.env, ask...).want(t, exitOK, "history goes on at", "has ended", "300 events sent")
	s.wantAudit("history", "create", "change", "finish")
}

// What a cancelled backfill has sent reaches the reader, also when its process
// was killed.
func TestCancelFinishesTheFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert("a", 300)
	s.env["EXPORTER_LEASE_TTL"] = "1h"
	command(t, s.env, "run", "--once").want(t, exitOK)
	c := start(t, s.env, "", "backfill", "--consumer", "analytics", "--from", "earliest", "--name", "history", "--rate", "40/s")
	pgtest.Until(t, 20*time.Second, "the first events", func() bool { return s.accepted("history") > 0 })
	c.kill()
	cancel := []string{"backfill", "cancel", "history", "--reason", "wrong"}
	command(t, s.env, cancel...).want(t, exitOK, "history is cancelled at", "works on it and finishes what it has open", "exporter backfill cancel history")
	command(t, s.env, cancel...).want(t, exitOK, "history was cancelled", "works on it")
	if n := len(s.unfinished("history")); n != 1 {
		t.Fatalf("%d unfinished files while the lease lives, want 1", n)
	}
	pgtest.Exec(t, s.pool, `UPDATE docket_export.consumers SET lease_until = now() - interval '1 second' WHERE name = 'history'`)
	elsewhere := map[string]string{"DOCKET_DATABASE_URL": s.dsn}
	command(t, elsewhere, cancel...).want(t, exitOK, "where EXPORTER_CONSUMERS names analytics", "exporter backfill cancel history")
	command(t, s.env, cancel...).want(t, exitOK, "are finished")
	if parts := s.unfinished("history"); len(parts) > 0 {
		t.Errorf("no reader takes %v", parts)
	}
	if sent, got := s.status("history").EventsAccepted, len(s.lines("history")); int64(got) < sent {
		t.Errorf("%d lines of %d events", got, sent)
	}
	s.wantAudit("history", "create", "cancel")
}

// Whoever looks at exit codes does not take a cancelled backfill for a complete one.
func TestCancelledBackfillIsNotComplete(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert("a", 300)
	command(t, s.env, "run", "--once").want(t, exitOK)
	ask := []string{"backfill", "--consumer", "analytics", "--from", "earliest"}
	c := start(t, s.env, "", append(ask, "--rate", "40/s")...)
	var name string
	pgtest.Until(t, 20*time.Second, "the first events", func() bool {
		name = pgtest.Value[string](t, s.pool, `SELECT coalesce(max(name), '') FROM docket_export.consumers WHERE kind = 'backfill' AND events_accepted > 0`)
		return name != ""
	})
	command(t, s.env, "backfill", "cancel", name, "--reason", "wrong").want(t, exitOK)
	if code := c.wait(20 * time.Second); code != exitPerson || !strings.Contains(c.stderr.String(), "was cancelled") {
		t.Errorf("exit code %d\n%s", code, c.stderr)
	}
	if parts := s.unfinished(name); len(parts) > 0 {
		t.Errorf("no reader takes %v", parts)
	}
	command(t, s.env, ask...).want(t, exitPerson, "was cancelled", "--again")
	command(t, s.env, append(ask, "--detach")...).want(t, exitPerson, "was cancelled", "--again")
	command(t, s.env, append(ask, "--again")...).want(t, exitOK, "300 events sent")
}

func TestBackfillWarnsOfTypesThatDoNotExist(t *testing.T) {
	s := newSite(t)
	s.insert("a", 3)
	command(t, s.env, "run", "--once").want(t, exitOK)
	from := []string{"backfill", "--consumer", "analytics", "--from", "earliest", "--types"}
	r := command(t, s.env, append(from, "run_complete")...)
	r.want(t, exitOK, "0 events sent: nothing matched types run_complete")
	if !strings.Contains(r.stderr, `"run_complete" in --types matches no event type`) || !strings.Contains(r.stderr, "did you mean run_completed?") {
		t.Errorf("it does not warn: %s", r.stderr)
	}
	if r := command(t, s.env, append(from, "node_*")...); strings.Contains(r.stdout+r.stderr, "match") {
		t.Errorf("it warns: %s%s", r.stdout, r.stderr)
	}
}

// A sink that cannot be opened as it is configured ends the command before
// anything is begun.
func TestBackfillIntoNoDirectory(t *testing.T) {
	s := newSite(t)
	s.insert("a", 3)
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.env["CONSUMER_ANALYTICS_FILE_DIR"] += "/nowhere"
	command(t, s.env, "backfill", "--consumer", "analytics", "--from", "earliest").want(t, exitUsage, "CONSUMER_ANALYTICS_FILE_DIR", "does not exist")
	command(t, s.env, "backfill", "list").want(t, exitOK, "there is no backfill")
}

// Positions with many open ids are shortened for people, and whole for programs.
func TestBackfillShortensPositions(t *testing.T) {
	s := newSite(t)
	s.insert("a", 400)
	command(t, s.env, "run", "--once").want(t, exitOK)
	var open []string
	for id := 2; id < 400; id += 2 {
		open = append(open, fmt.Sprintf("[%d,%d]", id, id))
	}
	until := "400-{" + strings.Join(open, ",") + "}" // some 2,000 characters
	r := command(t, s.env, "backfill", "--consumer", "analytics", "--from", "earliest", "--to", until, "--name", "history")
	r.want(t, exitOK, "begins at 0 and ends at 400-{199 open ids from 2 to 398}", "is finished at 400-{199 open ids from 2 to 398}", "201 events sent")
	list, show := command(t, s.env, "backfill", "list"), command(t, s.env, "backfill", "show", "history")
	for line := range strings.Lines(r.stdout + list.stdout + show.stdout) {
		if n := utf8.RuneCountInString(line); n > 450 {
			t.Errorf("%d characters: %.150s…", n, line)
		}
	}
	command(t, s.env, "backfill", "show", "history", "--json").want(t, exitOK, `"until": "`+until+`"`)
}

// Of a backfill that nobody works on, show tells the command that goes on with it.
func TestBackfillTellsHowItGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, run := range []string{"it's mine", "b1", "order,7*"} {
		s.insert(run, 40)
	}
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.env["CONSUMER_ANALYTICS_BATCH_EVENTS"] = "5"
	for _, ask := range [][]string{
		{"backfill", "--consumer", "analytics", "--from", "earliest", "--to", "id:121", "--runs", "it's mine,b*", "--max-live-lag", "0s", "--name", "history"},
		{"replay", "--run", "order,7*", "--reason", "lost"},
	} {
		c := start(t, s.env, "", append(ask, "--rate", "10/s")...)
		var name string
		pgtest.Until(t, 20*time.Second, "the first events", func() bool {
			name = pgtest.Value[string](t, s.pool, `SELECT coalesce(max(name), '') FROM docket_export.consumers WHERE kind = 'backfill' AND events_accepted > 0 AND finished_at IS NULL`)
			return name != ""
		})
		c.signal(syscall.SIGTERM)
		c.wait(20 * time.Second)
		command(t, s.env, "backfill", "list").want(t, exitOK, name, "stopped", "created ")
		shown := command(t, s.env, "backfill", "show", name)
		shown.want(t, exitOK, "stopped")
		next := regexp.MustCompile(`(?m)^next +exporter (.*)$`).FindStringSubmatch(shown.stdout)
		if next == nil {
			t.Fatalf("no command:\n%s", shown.stdout)
		}
		if !strings.Contains(next[1], "--rate 10/s") {
			t.Errorf("the rate is lost: %s", next[1])
		}
		line := strings.Replace(next[1], "--rate 10/s", "--rate 1000/s", 1)
		words, err := exec.Command("sh", "-c", "printf '%s\\0' "+line).Output()
		if err != nil {
			t.Fatal(err)
		}
		args := strings.Split(strings.TrimSuffix(string(words), "\x00"), "\x00")
		command(t, s.env, args...).want(t, exitOK, name+" goes on at", name+" is finished")
		command(t, s.env, "backfill", "list").want(t, exitOK, "ended ")
	}
	command(t, s.env, "backfill", "--consumer", "analytics", "--from", "earliest", "--name", "later", "--detach").want(t, exitOK)
	command(t, s.env, "backfill", "show", "later", "--json").want(t, exitOK, `"state": "queued"`)
}

func TestReplayNamesMissingGrants(t *testing.T) {
	s := newSite(t)
	s.insert("a", 3)
	conn := pgtest.Connect(t, s.dsn)
	env := maps.Clone(s.env)
	env["EXPORT_DATABASE_URL"], env["DOCKET_DATABASE_URL"] = s.dsn, asRole(t, conn, s.dsn, "replays_nothing")
	command(t, env, "replay", "--run", "a", "--reason", "lost").want(t, exitPerson, "permission denied", "--print-grants")
}
