package docket_test

import (
	"context"
	"strings"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/pgserver"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/sources/docket"
)

// stopped is what an exporter keeps while it does not run.
type stopped struct {
	at   exporter.Position
	mark *exporter.Mark
	seen *docket.Seen
}

func (d *database) stop() stopped {
	d.t.Helper()
	if d.mark == nil || d.source.Saw() == nil {
		d.t.Fatal("nothing was read")
	}
	return stopped{d.at, d.mark, d.source.Saw()}
}

// goOn makes a new source go on from there, on the server at dsn.
func (d *database) goOn(dsn string, from stopped) {
	d.t.Helper()
	d.pool, d.dsn, d.at = pgtest.PlainPool(d.t, dsn), dsn, from.at
	d.source = docket.New(d.pool, docket.Options{Seen: from.seen, Mark: from.mark, Retention: 24 * time.Hour}).Impatient()
}

// filled is a database with a hundred events that were read.
func filled(t *testing.T, dsn string) (*database, *session) {
	t.Helper()
	d := openOn(t, dsn, docket.Options{})
	s := d.session()
	s.runs("a", "b")
	for seq := range 50 {
		s.insert("a", seq+1)
	}
	for seq := range 50 {
		s.insert("b", seq+1)
	}
	d.drain()
	d.wantAt("100")
	return d, s
}

func TestMarkedRowChanged(t *testing.T) {
	d, s := filled(t, pgtest.Database(t))
	kept := d.stop()
	s.do(`UPDATE docket_events SET payload = payload || '\x00' WHERE id = 100`)
	d.goOn(d.dsn, kept)
	d.wantChanged("event 100 was b/50")
	s.do(`UPDATE docket_events SET payload = substr(payload, 1, length(payload) - 1) WHERE id = 100`)
	d.goOn(d.dsn, kept)
	d.drain()
	d.wantAt("100")
}

// What may be gone, and what may not.
func TestMarkedRowGone(t *testing.T) {
	for name, c := range map[string]struct {
		sql  string
		want string
	}{
		"its run was deleted":          {sql: `DELETE FROM docket_runs WHERE run_id = 'b'`},
		"pruned":                       {sql: `DELETE FROM docket_events WHERE id > 40`},
		"pruned by a shorter pruner":   {sql: `DELETE FROM docket_events`},
		"only it, and its run is here": {sql: `DELETE FROM docket_events WHERE id = 100`, want: "event 100 (b/50)"},
	} {
		t.Run(name, func(t *testing.T) {
			d, s := filled(t, pgtest.Database(t))
			kept := d.stop()
			if name == "pruned" {
				kept.mark.InsertedAt = kept.mark.InsertedAt.Add(-23 * time.Hour)
			}
			s.do(c.sql)
			d.goOn(d.dsn, kept)
			if c.want != "" {
				d.wantChanged(c.want)
				return
			}
			s.insert("a", 51)
			d.drain()
			d.wantAt("101")
			if d.mark == nil || d.mark.EventID != 101 {
				t.Fatalf("mark %+v", d.mark)
			}
		})
	}
}

// A consumer that has read nothing yet takes the row before its start as mark.
func TestMarkOfANewConsumer(t *testing.T) {
	d, s := filled(t, pgtest.Database(t))
	d.goOn(d.dsn, stopped{at: exporter.Position{High: 100}})
	d.mark = nil
	d.poll()
	kept := d.stop()
	s.do(`UPDATE docket_events SET seq = 777 WHERE id = 100`)
	d.goOn(d.dsn, kept)
	d.wantChanged("event 100 was b/50")
}

func TestRecreatedWhileStopped(t *testing.T) {
	d, s := filled(t, pgtest.Database(t))
	kept := d.stop()
	s.do(`CREATE TABLE copy (LIKE docket_events INCLUDING ALL)`)
	s.do(`INSERT INTO copy SELECT * FROM docket_events`)
	s.do(`ALTER SEQUENCE docket_events_id_seq OWNED BY copy.id`)
	s.do(`DROP TABLE docket_events`)
	s.do(`ALTER TABLE copy RENAME TO docket_events`)
	d.goOn(d.dsn, kept)
	d.wantChanged("dropped and made again")
}

// One primary and one standby serve all that a promotion can do.
func TestPromotion(t *testing.T) {
	primary := pgtest.Cluster(t, pgserver.Options{})
	standby := pgtest.Standby(t, primary, pgserver.Options{})
	d, s := filled(t, primary.URL("postgres"))
	replica := &session{t, pgtest.Connect(t, standby.URL("postgres"))}
	pgtest.Eventually(t, 20*time.Second, func() error {
		var n int
		return replica.QueryRow(context.Background(), `SELECT 1 / (count(*) / 100)::int FROM docket_events`).Scan(&n)
	})

	// What commits from now on is not sent to the standby.
	replica.do(`ALTER SYSTEM SET primary_conninfo = ''`)
	replica.do(`SELECT pg_reload_conf()`)
	pgtest.Until(t, 20*time.Second, "the standby to be cut off", func() bool {
		return pgtest.Value[int](t, s.Conn, `SELECT count(*)::int FROM pg_stat_replication`) == 0
	})
	whole := d.stop()
	for seq := range 5 {
		s.insert("b", 51+seq)
	}
	d.drain()
	d.wantAt("105")
	ahead := d.stop()

	// A plain restart of the same server is no change, for a source that runs and for one that starts.
	s.Close(t.Context())
	if err := primary.Restart(t.Context(), "fast"); err != nil {
		t.Fatal(err)
	}
	pgtest.Eventually(t, 20*time.Second, func() error {
		_, err := d.source.Poll(t.Context(), d.at)
		return err
	})
	d.goOn(d.dsn, ahead)
	d.drain()
	d.wantAt("105")

	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	url := standby.URL("postgres")
	// Nothing that was read is missing: the promotion is no change, and the timeline is known at once.
	d.goOn(url, whole)
	d.drain()
	if d.source.Saw().Timeline != "00000002" {
		t.Fatalf("timeline %s", d.source.Saw().Timeline)
	}
	promoted := d.stop()
	// Five commits are missing, and the sequence is above the position.
	replica = &session{t, pgtest.Connect(t, url)}
	last := pgtest.Value[int64](t, replica.Conn, `SELECT last_value FROM docket_events_id_seq`)
	d.goOn(url, ahead)
	if last < 105 {
		d.wantChanged("is at")
		replica.do(`SELECT setval('docket_events_id_seq', 132)`)
	}
	d.wantChanged("event 105 (b/55)")
	in, err := docket.New(d.pool, docket.Options{Seen: ahead.seen, Mark: ahead.mark}).Inspect(t.Context(), ahead.at, nil, ahead.mark.InsertedAt)
	if err != nil || in.Gone.String() != "{[101,105]}" || len(in.Later) != 0 || !strings.Contains(in.Changed, "event 105") {
		t.Fatalf("%+v, %v", in, err)
	}
	// New commits under the same ids.
	replica.do(`SELECT setval('docket_events_id_seq', 100)`)
	for seq := range 8 {
		replica.insert("a", 51+seq)
	}
	d.goOn(url, ahead)
	d.wantChanged("event 105 was b/55")
	in, err = docket.New(d.pool, docket.Options{Seen: ahead.seen, Mark: ahead.mark}).Inspect(t.Context(), ahead.at, nil, ahead.mark.InsertedAt)
	if err != nil || len(in.Gone) != 0 || len(in.Later) != 5 || in.Later[0].EventID != 101 {
		t.Fatalf("%+v, %v", in, err)
	}
	// The former primary, still alive.
	d.goOn(primary.URL("postgres"), promoted)
	d.wantChanged("timeline 00000001")
}

// A disk that was restored has the same system, timeline and tables.
func TestWriteAheadLogThatGoesBack(t *testing.T) {
	d, _ := filled(t, pgtest.Database(t))
	kept := d.stop()
	ahead := *kept.seen
	ahead.WAL += 1 << 40
	kept.seen = &ahead
	d.goOn(d.dsn, kept)
	err := d.wantPollError("its disk was restored")
	if !strings.Contains(err.Error(), "exporter source adopt") {
		t.Fatal(err)
	}
}
