package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

func TestStatusShowsTheLag(t *testing.T) {
	s := newSite(t)
	s.env["EXPORTER_HTTP_ADDR"] = "off"
	s.insert("r", 2)
	command(t, s.env, "run", "--once").want(t, exitOK)
	s.insert("r", 3)
	pgtest.Exec(t, s.pool, "UPDATE docket_events SET inserted_at = now() - interval '90 minutes' WHERE id = 3")
	lag := func() consumerReport {
		t.Helper()
		var got []consumerReport
		if err := json.Unmarshal([]byte(command(t, s.env, "status", "--json").stdout), &got); err != nil || len(got) != 1 {
			t.Fatalf("%v, %v", got, err)
		}
		return got[0]
	}
	r := lag()
	if r.LagEvents == nil || *r.LagEvents != 3 || !*r.LagExact || *r.LagSeconds < 5400 || *r.LagSeconds > 5500 {
		t.Errorf("got %v events, %v seconds", r.LagEvents, r.LagSeconds)
	}
	s.env["CONSUMER_ANALYTICS_TYPES"] = "run_*"
	for _, c := range []struct {
		told any // by the owner
		want int64
	}{{`{}`, 3}, {`{"types": ["run_*"]}`, 0}, {`{"graphs": ["!chain"]}`, 0}, {nil, 0}} {
		pgtest.Exec(t, s.pool, `UPDATE docket_export.consumers SET filter = $1`, c.told)
		if r = lag(); r.LagEvents == nil || *r.LagEvents != c.want || (*r.LagSeconds == 0) != (c.want == 0) {
			t.Errorf("with the owner's filter %v: %v events, want %d", c.told, r.LagEvents, c.want)
		}
	}
	s.env["EXPORT_DATABASE_URL"], s.env["DOCKET_DATABASE_URL"] = s.dsn, "postgres://"+closedPort(t)+"/app"
	unknown := command(t, s.env, "status")
	unknown.want(t, exitOK, "?", "the lag is unknown", "DOCKET_DATABASE_URL")
	if r = lag(); r.LagEvents != nil || r.LagSeconds != nil {
		t.Error("an unknown lag has a value")
	}
}

func TestStatusNamesTheStatementThatEndsAHolder(t *testing.T) {
	for _, x := range []struct {
		holder holder
		want   string
	}{
		{holder{PID: 937}, "SELECT pg_terminate_backend(937);"},
		{holder{Prepared: "it's"}, "ROLLBACK PREPARED 'it''s';"},
	} {
		x.holder.Since = time.Now()
		r := consumerReport{State: "running", OpenIDs: 1, Holders: []exporter.Holder{x.holder}}
		if next := r.next(); !strings.Contains(next, x.want) {
			t.Errorf("next is %q", next)
		}
	}
}

func TestStatusNamesTheSchema(t *testing.T) {
	r := consumerReport{DeadLetters: 1, Losses: 2, schema: "jobs_export"}
	var b strings.Builder
	writeDetails(&b, &r)
	for _, want := range []string{"1 event as dead", "jobs_export.export_dead_letters", "2 ranges", "jobs_export.losses"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in %s", want, b.String())
		}
	}
}
