package main

import (
	"encoding/json"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// stateful is an environment with the consumers feed and feed_eu, of which
// owner owns feed.
func stateful(t *testing.T) (env map[string]string, store *cursor.Store, feed *cursor.Cursor) {
	t.Helper()
	dsn := pgtest.Database(t)
	env = map[string]string{"DOCKET_DATABASE_URL": dsn}
	command(t, env, "status").want(t, exitPerson, "run `exporter migrate`")
	command(t, env, "migrate").want(t, exitOK)
	command(t, env, "status").want(t, exitOK, "no consumer has a cursor yet")
	store = cursor.NewStore(pgtest.Pool(t, dsn), nil, "docket_export")
	for _, name := range []string{"feed", "feed_eu"} {
		p := exporter.Position{High: 120345, Holes: exporter.Ranges{{Lo: 120300, Hi: 120301}}}
		if _, err := store.Create(t.Context(), cursor.Consumer{Name: name, Position: p, By: "test", Reason: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	feed, _, err := store.Claim(t.Context(), "feed", "host-1", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return env, store, feed
}

func TestStatusSaysWhoHoldsWhatUp(t *testing.T) {
	env, _, feed := stateful(t)
	caughtUp := 3 * time.Second
	err := feed.Renew(t.Context(), cursor.Heartbeat{CaughtUp: &caughtUp, LastError: "disk\nfull \x1b[31m", Holders: []exporter.Holder{
		{Transaction: "5/16", PID: 4711, Application: "psql", User: "app", State: "idle in transaction", Since: time.Now().Add(-12 * time.Minute)},
		{Transaction: "-1/749", Prepared: "import", Since: time.Now().Add(-time.Hour)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	command(t, env, "status").want(t, exitOK,
		"stuck", "host-1", "unowned", "120345", "3s ago", "120345-{[120300,120301]}", "disk full",
		`pid 4711 "psql" user app, idle in transaction, since 12m ago`, `prepared transaction "import", since 1h ago`,
		"start `exporter run` with feed_eu", "the lag is unknown")
	r := command(t, env, "status", "--json")
	var report statusReport
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatal(err)
	}
	got := report.Consumers
	if len(got) != 2 || got[0].Owner != "host-1" || got[0].OpenIDs != 2 || got[0].Holders[0].PID != 4711 || got[1].State != cursor.Unowned {
		t.Errorf("got %+v", got)
	}
	command(t, env, "cursor", "list").want(t, exitOK, "feed_eu", "120345-{[120300,120301]}")
	command(t, env, "cursor", "show", "feed").want(t, exitOK, "running on host-1", "open ids", "held by", "pid 4711", "disk full")
	command(t, env, "cursor", "show", "feed", "--json").want(t, exitOK, `"epoch": 1`)
	command(t, env, "cursor", "show", "fed").want(t, exitUsage, `there is no consumer "fed"; did you mean feed?`)
}

func TestPauseAndResume(t *testing.T) {
	env, store, _ := stateful(t)
	command(t, env, "consumer", "pause", "feed_eu", "--reason", "upgrade", "--by", "ada").want(t, exitOK, "feed_eu is paused; no process runs it")
	command(t, env, "status").want(t, exitPerson, "paused, operator", "by ada", "upgrade", "exporter consumer resume feed_eu")
	if _, _, err := store.Claim(t.Context(), "feed_eu", "host-2", time.Minute); exitCode(err) != exitPerson {
		t.Errorf("a paused consumer is claimed: %v", err)
	}
	command(t, env, "consumer", "pause", "feed_eu", "--reason", "again", "--by", "eve").want(t, exitOK, "already paused by ada since", "upgrade", "nothing was changed")
	command(t, env, "cursor", "show", "feed_eu").want(t, exitOK, "ada", "operator", "upgrade", "paused at")
	command(t, env, "consumer", "resume", "feed_eu", "--reason", "done").want(t, exitOK, "may go on after 120345")
	command(t, env, "consumer", "resume", "feed_eu", "--reason", "done").want(t, exitOK, "feed_eu is not paused, it is unowned; nothing was changed")
	command(t, env, "status").want(t, exitOK)
	command(t, env, "consumer", "pause", "nobody", "--reason", "x").want(t, exitUsage, `no consumer "nobody"`)
}

func TestRemoveAndRenameWantYes(t *testing.T) {
	env, store, feed := stateful(t)
	for _, args := range [][]string{{"consumer", "remove", "feed_eu"}, {"consumer", "rename", "feed_eu", "feed_us"}} {
		r := command(t, env, append(args, "--reason", "test")...)
		r.want(t, exitUsage, "would re", "nothing was changed; add --yes")
	}
	if _, err := store.Get(t.Context(), "feed_eu"); err != nil {
		t.Fatalf("changed without --yes: %v", err)
	}
	command(t, env, "consumer", "rename", "feed_eu", "feed_us", "--reason", "moved", "--yes").want(t, exitOK, "CONSUMER_FEED_US_")
	command(t, env, "consumer", "rename", "feed_us", "feed", "--reason", "moved", "--yes").want(t, exitUsage, "rename consumer feed_us to feed: there is a consumer of that name already")
	command(t, env, "consumer", "remove", "feed", "--reason", "gone").want(t, exitUsage, "host-1 owns it")
	command(t, env, "consumer", "remove", "feed", "--reason", "gone", "--yes").want(t, exitFailed, "owned by host-1", "stop that process")
	if err := feed.Release(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	command(t, env, "consumer", "remove", "feed", "--reason", "gone", "--yes").want(t, exitOK, "removed feed")
	command(t, env, "cursor", "list").want(t, exitOK, "feed_us")
	audited := pgtest.Value[int](t, pgtest.Connect(t, env["DOCKET_DATABASE_URL"]),
		"SELECT count(*) FROM docket_export.audit WHERE command IN ('rename', 'remove') AND who <> '' AND reason <> ''")
	if audited != 2 {
		t.Errorf("%d changes are in the audit, want 2", audited)
	}
}
