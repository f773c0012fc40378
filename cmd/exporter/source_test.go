package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/internal/pgserver"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// postgresProgram runs a program of PostgreSQL and returns what it printed.
func postgresProgram(t *testing.T, stdin []byte, name string, args ...string) []byte {
	t.Helper()
	dir, err := pgserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, name), args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, &stderr)
	}
	return out
}

// apart moves the exporter's tables into a database of their own.
func (s *site) apart() {
	s.t.Helper()
	s.env["EXPORT_DATABASE_URL"] = pgtest.Database(s.t)
	command(s.t, s.env, "migrate").want(s.t, exitOK)
}

// exportStatus is status of a site whose tables are apart.
func (s *site) exportStatus(consumer string) cursor.Status {
	there := *s
	there.dsn = s.env["EXPORT_DATABASE_URL"]
	return there.status(consumer)
}

// A dump of 60 events is restored after 100 were exported, and 50 others take
// their ids.
func TestRestoredDump(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.apart()
	s.insert("r", 60)
	dump := postgresProgram(t, nil, "pg_dump", "--schema=public", "-d", s.dsn)
	s.insert("r", 40)
	command(t, s.env, "run", "--once").want(t, exitOK)
	command(t, s.env, "source", "show").want(t, exitOK, "the source is the one that was read")
	command(t, s.env, "source", "adopt", "--reason", "none", "--yes").want(t, exitOK, "nothing was changed")

	other := pgtest.Cluster(t, pgserver.Options{})
	s.dsn = other.URL("postgres")
	s.pool = pgtest.Pool(t, s.dsn)
	pgtest.Exec(t, s.pool, "DROP SCHEMA public")
	postgresProgram(t, dump, "psql", "-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", "-d", s.dsn)
	s.env["DOCKET_DATABASE_URL"] = s.dsn

	command(t, s.env, "run", "--once").want(t, exitPerson, "system identifier", "exporter source adopt")
	command(t, s.env, "check").want(t, exitPerson, "system identifier")
	command(t, s.env, "source", "adopt", "--reason", "moved", "--yes").want(t, exitUsage, "no id above 60", "--rewind-to 60")
	s.insert("r", 50) // 61' to 110'
	command(t, s.env, "source", "show").want(t, exitPerson, "CHANGED: the server has system identifier",
		"40 rows at ids that are done were inserted since", "61, run r/61", "and 30 more", "--rewind-to 60")
	command(t, s.env, "source", "adopt", "--reason", "moved").want(t, exitUsage, "NEVER DELIVERED: 40 rows took an id", "--rewind-to 60 would deliver them", "add --yes")
	adopt := []string{"source", "adopt", "--rewind-to", "60", "--reason", "restored a dump", "--by", "ada"}
	command(t, s.env, adopt...).want(t, exitUsage, "ids 61 to 100 (40 of them)", "CONFLICT: 40 rows", "61, run r/61", "nothing was changed")
	command(t, s.env, "run", "--once").want(t, exitPerson)
	s.wantDelivered("analytics", "r", 100)

	command(t, s.env, append(adopt, "--yes")...).want(t, exitOK, "CONFLICT: 40 rows", "goes on after 60; it was at 100")
	command(t, s.env, "run", "--once").want(t, exitOK)
	var want []string
	for _, ids := range [][2]int{{1, 100}, {61, 110}} {
		for seq := ids[0]; seq <= ids[1]; seq++ {
			want = append(want, fmt.Sprintf("r/%d", seq))
		}
	}
	if got := s.delivered("analytics"); !slices.Equal(got, want) {
		t.Fatalf("delivered %v", got)
	}
	command(t, s.env, "source", "show").want(t, exitOK, "the source is the one that was read")
	export := pgtest.Connect(t, s.env["EXPORT_DATABASE_URL"])
	who := pgtest.Value[string](t, export, `SELECT string_agg(who || ' ' || reason, ',') FROM docket_export.audit WHERE command = 'source adopt'`)
	if who != "ada restored a dump,ada restored a dump" { // the source and the consumer
		t.Errorf("audit: %q", who)
	}
}

// A table that was made again while no exporter ran pauses the consumer, also
// after a person has let it go on, until the source is adopted. A backfill that
// has ended has no part in it. A server is adopted also where no consumer is left.
func TestTableMadeAgain(t *testing.T) {
	s := newSite(t)
	s.apart()
	s.insert("r", 3)
	command(t, s.env, "run", "--once").want(t, exitOK)
	command(t, s.env, "backfill", "--consumer", "analytics", "--from", "earliest", "--to", "id:2", "--name", "history").want(t, exitOK, "is finished")
	dump := postgresProgram(t, nil, "pg_dump", "--schema=public", "-d", s.dsn)
	pgtest.Exec(t, s.pool, "DROP SCHEMA public CASCADE")
	postgresProgram(t, dump, "psql", "-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", "-d", s.dsn)
	for range 2 {
		command(t, s.env, "run", "--once").want(t, exitPerson, "dropped and made again")
		if p := s.exportStatus("analytics").Paused; p == nil || p.Reason != "source_changed" {
			t.Fatalf("paused: %+v", p)
		}
		command(t, s.env, "source", "show").want(t, exitPerson, "CHANGED")
		command(t, s.env, "consumer", "resume", "analytics", "--reason", "hope").want(t, exitOK)
	}
	s.insert("r", 1)
	r := command(t, s.env, "source", "adopt", "--reason", "restored in place", "--yes")
	r.want(t, exitOK, "analytics goes on after 3")
	if strings.Contains(r.stdout, "CONFLICT") || strings.Contains(r.stdout, "NEVER") {
		t.Errorf("alarm about nothing:\n%s", r.stdout)
	}
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.wantDelivered("analytics", "r", 4)
	command(t, s.env, "source", "show", "--json").want(t, exitOK, `"later_rows": 0`)
	if r := command(t, s.env, "source", "show"); strings.Contains(r.stdout, "history") {
		t.Errorf("a backfill that reads nothing any more:\n%s", r.stdout)
	}
	command(t, s.env, "source", "adopt", "--consumer", "nobody", "--reason", "r").want(t, exitUsage, "no consumer nobody")

	export := pgtest.Connect(t, s.env["EXPORT_DATABASE_URL"])
	pgtest.Exec(t, export, `UPDATE docket_export.source SET system_identifier = 4711`)
	command(t, s.env, "consumer", "remove", "analytics", "--reason", "to begin anew", "--yes").want(t, exitOK)
	command(t, s.env, "run", "--once").want(t, exitPerson, "exporter source adopt")
	command(t, s.env, "source", "show").want(t, exitPerson, "on server 4711", "no consumer reads it")
	command(t, s.env, "source", "adopt", "--reason", "begun anew", "--yes").want(t, exitOK, "is the known source")
	command(t, s.env, "run", "--once").want(t, exitOK, "caught up at 4")
}
