package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgserver"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// wantFinding wants a finding in the JSON form of a status.
func wantFinding(t *testing.T, text, subject string, texts ...string) {
	t.Helper()
	var r statusReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	i := slices.IndexFunc(r.Findings, func(f finding) bool { return f.Subject == subject })
	if i < 0 {
		t.Fatalf("nothing is found of the %s: %+v", subject, r.Findings)
	}
	for _, want := range texts {
		if f := r.Findings[i]; !strings.Contains(f.Text+f.Hint, want) {
			t.Errorf("the finding lacks %q: %+v", want, f)
		}
	}
}

// Status says of a database that takes no writes what /readyz says, and so do
// the page and its JSON form.
func TestStatusOfADatabaseThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.apart()
	s.insert("r", 2)
	c := start(t, s.env, "", "run")
	s.await("analytics", 2)
	command(t, s.env, "status").want(t, exitOK, "caught up")
	export := pgtest.Connect(t, s.env["EXPORT_DATABASE_URL"])
	pgtest.Exec(t, export, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$`)
	pgtest.Exec(t, export, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	want := []string{"takes no writes: default_transaction_read_only is on", "switch it off for this role, database or server, or in the options of EXPORT_DATABASE_URL"}
	command(t, s.env, "status").want(t, exitPerson, append(want, "export database\n  error    ")...)
	r := command(t, s.env, "status", "--json")
	r.want(t, exitPerson)
	wantFinding(t, r.stdout, "export database", want...)

	url := servedAt(c.stderr.String())
	for path, says := range map[string]string{"/status.json": want[0], "/": "The export database needs a person"} {
		pgtest.Eventually(t, 30*time.Second, func() error { return scrape(url+path, says) })
	}
	text, _, err := get(url + "/status.json")
	if err != nil {
		t.Fatal(err)
	}
	wantFinding(t, string(text), "export database", want...)
	c.kill()
}

// Lag and headroom that are read from another Docket are none of these consumers.
func TestStatusOfAnotherServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.apart()
	s.insert("r", 2)
	command(t, s.env, "run", "--once").want(t, exitOK)
	other := pgtest.Cluster(t, pgserver.Options{}).URL("postgres")
	there := &site{t: t, dsn: other, pool: pgtest.Pool(t, other)}
	if err := docketsim.Install(t.Context(), there.pool, "public"); err != nil {
		t.Fatal(err)
	}
	there.insert("q", 9)
	env := maps.Clone(s.env)
	env["DOCKET_DATABASE_URL"] = other
	r := command(t, env, "status")
	r.want(t, exitPerson, "Docket database\n  error    source_changed: Docket's server has system identifier", "correct DOCKET_DATABASE_URL", "  ?")
	if n := strings.Count(r.stdout+r.stderr, "Docket's server has system identifier"); n != 1 {
		t.Errorf("it is said %d times:\n%s%s", n, r.stdout, r.stderr)
	}
	r = command(t, env, "status", "--json")
	r.want(t, exitPerson)
	wantFinding(t, r.stdout, "Docket database", "system identifier")
	if strings.Contains(r.stdout, `"lag_events"`) {
		t.Errorf("the lag is that of another Docket:\n%s", r.stdout)
	}
	env["DOCKET_DATABASE_URL"] = "postgres://" + closedPort(t) + "/app"
	command(t, env, "status").want(t, exitOK, "the lag is unknown", "DOCKET_DATABASE_URL")
}

// A backfill that a running exporter takes up by itself is told from one that
// waits for its command.
func TestStatusTellsWhyABackfillIsUnowned(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "off"
	s.insert("r", 5)
	command(t, s.env, "run", "--once").want(t, exitOK)
	begin := []string{"backfill", "--consumer", "analytics", "--from", "earliest", "--name", "history", "--detach"}
	command(t, s.env, begin...).want(t, exitOK)
	command(t, s.env, "status").want(t, exitOK, "unowned, queued")
	command(t, s.env, "status", "--json").want(t, exitOK, "\"words\": \"unowned: queued for `exporter run`\"", `"detached": true`)
	pgtest.Exec(t, s.pool, `UPDATE docket_export.consumers SET spec = spec - 'detached' WHERE name = 'history'`) // as without --detach, and interrupted
	command(t, s.env, "status").want(t, exitOK, "unowned, stopped")
	command(t, s.env, "status", "--json").want(t, exitOK, `"words": "unowned: stopped in the foreground"`, `"detached": false`)
}
