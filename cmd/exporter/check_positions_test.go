package main

import (
	"net/url"
	"strings"
	"testing"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

func TestCheckSaysWhereEachConsumerBegins(t *testing.T) {
	s := newSite(t)
	s.insert("r", 3)
	s.env["EXPORTER_HTTP_ADDR"] = "off"
	command(t, s.env, "check").want(t, exitOK, "consumer analytics", "NEW", "begin at earliest")
	s.env["CONSUMER_ANALYTICS_START"] = "999"
	command(t, s.env, "check").want(t, exitUsage, "FAIL", "CONSUMER_ANALYTICS_START")
	command(t, s.env, "run", "--once").want(t, exitUsage, "CONSUMER_ANALYTICS_START")
	delete(s.env, "CONSUMER_ANALYTICS_START")
	command(t, s.env, "run", "--once").want(t, exitOK)
	command(t, s.env, "check").want(t, exitOK, "goes on after id 3")
	command(t, s.env, "consumer", "pause", "analytics", "--reason", "upgrade", "--by", "ada").want(t, exitOK)
	command(t, s.env, "check").want(t, exitOK, "warn", "is paused by ada: operator: upgrade", "exporter consumer resume analytics")
}

// A name that is new beside a cursor that nobody configures is refused by check
// as by run, and START overrules both.
func TestCheckFindsAMistypedConsumer(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "off"
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.env["EXPORTER_CONSUMERS"] = "analitics"
	for _, end := range []string{"SINK", "FILE_DIR"} {
		s.env["CONSUMER_ANALITICS_"+end] = s.env["CONSUMER_ANALYTICS_"+end]
		delete(s.env, "CONSUMER_ANALYTICS_"+end)
	}
	for _, args := range [][]string{{"check"}, {"run", "--once"}} {
		command(t, s.env, args...).want(t, exitUsage, "consumer analitics is new", "does not name: analytics", "CONSUMER_ANALITICS_START")
	}
	s.env["CONSUMER_ANALITICS_START"] = "earliest"
	command(t, s.env, "check").want(t, exitOK, "NEW", "warn", "a new history begins", "START is set: analytics")
}

// A consumer of a backfill's name would never export anything.
func TestConsumerNamedLikeABackfill(t *testing.T) {
	s := newSite(t)
	s.insert("r", 3)
	command(t, s.env, "run", "--once").want(t, exitOK)
	command(t, s.env, "backfill", "--consumer", "analytics", "--from", "earliest", "--name", "history").want(t, exitOK)
	s.also("aside")
	s.also("history")
	s.env["CONSUMER_ASIDE_START"] = "latest"
	s.env["EXPORTER_HTTP_ADDR"] = "off"
	for _, args := range [][]string{{"check"}, {"run"}, {"run", "--once"}} {
		command(t, s.env, args...).want(t, exitUsage, "EXPORTER_CONSUMERS names history, which is a backfill", "a name of its own")
	}
	if n := pgtest.Value[int](t, s.pool, `SELECT count(*)::int FROM docket_export.consumers WHERE name = 'aside'`); n != 0 {
		t.Error("another consumer was made")
	}
}

func TestCheckWarnsOfTypesThatDoNotExist(t *testing.T) {
	env, _ := installed(t)
	env["CONSUMER_ANALYTICS_TYPES"] = "node_complete,run_*,!nothing"
	r := command(t, env, "check")
	r.want(t, exitOK, "warn", `"node_complete" in CONSUMER_ANALYTICS_TYPES matches no event type`, "did you mean node_completed?")
	if n := strings.Count(r.stdout, "matches no event type"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, r.stdout)
	}
}

func TestCheckOfAnotherCluster(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "off"
	command(t, s.env, "run", "--once").want(t, exitOK)
	pgtest.Exec(t, s.pool, "UPDATE docket_export.source SET system_identifier = 7")
	command(t, s.env, "check").want(t, exitPerson, "belong to 7", "correct DOCKET_DATABASE_URL")
}

// Positions in one database and migrations in another would go unnoticed for long.
func TestDirectURLMustLeadToTheSameDatabase(t *testing.T) {
	env, _ := installed(t)
	other := pgtest.Database(t)
	u, err := url.Parse(other)
	if err != nil {
		t.Fatal(err)
	}
	env["EXPORT_DIRECT_URL"] = other
	name := strings.TrimPrefix(u.Path, "/")
	command(t, env, "check").want(t, exitUsage, "FAIL", "EXPORT_DIRECT_URL", name, "both must lead to the same database")
	command(t, env, "migrate").want(t, exitUsage, "EXPORT_DIRECT_URL", name, "both must lead to the same database")
	conn := pgtest.Connect(t, other)
	if pgtest.Value[bool](t, conn, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'docket_export')") {
		t.Error("migrate has made the schema there")
	}
	delete(env, "EXPORT_DIRECT_URL")
	env["DOCKET_DIRECT_URL"], env["EXPORT_DATABASE_URL"] = other, env["DOCKET_DATABASE_URL"]
	command(t, env, "check").want(t, exitUsage, "FAIL", "DOCKET_DIRECT_URL")
}
