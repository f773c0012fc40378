package main

import (
	"maps"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

// A role with just the printed grants can watch, and neither change anything
// nor read a payload.
func TestMonitorNeedsToReadOnly(t *testing.T) {
	s := newSite(t)
	s.insert("r", 3)
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.insert("r", 2)
	const role = "only_watches"
	admin := pgtest.Connect(t, s.dsn)
	env := map[string]string{"DOCKET_DATABASE_URL": asRole(t, admin, s.dsn, role), "RETENTION_EVENTS": "1h"}
	grants := command(t, s.env, "migrate", "--print-monitor-grants", role)
	if _, err := admin.PgConn().Exec(t.Context(), grants.stdout).ReadAll(); err != nil {
		t.Fatal(err)
	}
	c := start(t, env, "", "monitor")
	wantResponse(t, http.DefaultClient, c.url()+"/livez", http.StatusOK, "live")
	wantResponse(t, http.DefaultClient, c.url()+"/readyz", http.StatusOK, "ready")
	got, _ := c.scrape()
	if wrong := got.wrong("analytics", map[string]expect{
		"lag_events": equals(2), "headroom_seconds": between(3500, 3600), "consumer_owned": zero, "dead_letters_open": zero, "losses_open": zero, "position_high_id": equals(3),
	}); wrong != nil {
		t.Errorf("monitor says %v", wrong)
	}
	command(t, env, "status").want(t, exitOK, "analytics")
	pgtest.Exec(t, s.pool, `UPDATE docket_events SET payload = '\x8368' WHERE run_id = 'r' AND seq = 5`)
	command(t, s.env, "run", "--once").want(t, exitOK)
	command(t, env, "deadletter", "list", "--json").want(t, exitOK, "undecodable", `"bytes": `)
	command(t, env, "deadletter", "show", s.letterID("r", 5)).want(t, exitPerson, "--print-monitor-grants")
	stranger := pgtest.Connect(t, env["DOCKET_DATABASE_URL"])
	for _, sql := range []string{
		`SELECT payload FROM docket_export.dead_letters`, `UPDATE docket_export.consumers SET high_id = 0`, `DELETE FROM docket_export.losses`,
		`SELECT nextval('docket_events_id_seq')`, `DELETE FROM docket_events`,
	} {
		if _, err := stranger.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s is allowed", sql)
		}
	}
	c.signal(syscall.SIGTERM)
	if code := c.wait(10 * time.Second); code != exitOK {
		t.Errorf("exit code %d\n%s", code, c.stderr)
	}
}

// A monitor starts without its databases, and says what is missing.
func TestMonitorWithoutADatabase(t *testing.T) {
	env := map[string]string{"DOCKET_DATABASE_URL": "postgres://watcher:topsecret@" + closedPort(t) + "/app", "RETENTION_EVENTS": "1h"}
	c := start(t, env, "", "monitor")
	wantResponse(t, http.DefaultClient, c.url()+"/livez", http.StatusOK, "live")
	wantResponse(t, http.DefaultClient, c.url()+"/readyz", http.StatusServiceUnavailable, "check host and port")
	got, _ := c.scrape()
	if wrong := got.wrong("", map[string]expect{"retention_seconds": equals(3600), "lag_collected_timestamp_seconds": absent}); wrong != nil {
		t.Errorf("monitor says %v", wrong)
	}
}

func TestMonitorConfiguration(t *testing.T) {
	env := map[string]string{"DOCKET_DATABASE_URL": "postgres://h/d"}
	command(t, env, "monitor").want(t, exitUsage, "RETENTION_EVENTS", "is not set")
	env["RETENTION_EVENTS"] = "1h"
	off := maps.Clone(env)
	off["EXPORTER_HTTP_ADDR"] = "off"
	command(t, off, "monitor").want(t, exitUsage, "EXPORTER_HTTP_ADDR")
	env["RETENTION_EVNTS"] = "2h"
	delete(env, "RETENTION_EVENTS")
	command(t, env, "monitor").want(t, exitUsage, "did you mean")
}
