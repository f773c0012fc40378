package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// pictures is where TestStatusPage writes what it sees.
var pictures = flag.String("pictures", "", "write pictures of the status page to this directory")

const hostile = `<script>document.title="owned"</script><img src=x onerror=alert(1)>&"'` + "\u202e\x1b[31m"

// pages is an installation with a consumer in each state, shown by the process
// that exports and by one that only watches.
type pages struct {
	*truth
	browser *browser
}

func newPages(t *testing.T) *pages {
	t.Helper()
	dsn, export := pgtest.Database(t), pgtest.Database(t)
	if err := docketsim.Install(t.Context(), pgtest.Connect(t, dsn), "public"); err != nil {
		t.Fatal(err)
	}
	env := with("DOCKET_DATABASE_URL="+dsn, "EXPORT_DATABASE_URL="+export, "CONSUMER_ANALYTICS_FILE_DIR="+t.TempDir(), "EXPORTER_REPLICA=exporter-1",
		"RETENTION_EVENTS=14d", "EXPORTER_LEASE_TTL=1s", "CONSUMER_BILLING_LINGER=1h", "CONSUMER_AUDIT_TYPES=none_such", "EXPORTER_POLL_INTERVAL=50ms")
	s := &site{t: t, env: env, dsn: dsn, pool: pgtest.Pool(t, dsn)}
	for _, name := range []string{"billing", "feed", "ledger", "search", "audit"} {
		s.also(name)
	}
	command(t, env, "migrate").want(t, exitOK)
	return &pages{&truth{site: s, export: export, admin: pgtest.Pool(t, pgtest.Database(t))}, newBrowser(t)}
}

// watch starts a process that only watches.
func (p *pages) watch() *child {
	env := maps.Clone(p.env)
	maps.DeleteFunc(env, func(name, _ string) bool {
		return strings.HasPrefix(name, "CONSUMER_") || name == "EXPORTER_CONSUMERS"
	})
	p.monitor = start(p.t, env, "", "monitor")
	return p.monitor
}

// fill runs the consumers and gets each into its state.
func (p *pages) fill() {
	t := p.t
	p.exporter = start(t, p.env, refusedSink+" 0", "run")
	p.truth.await("started", p.monitor, map[string]map[string]expect{"search": owned, "billing": owned, "feed": owned, "ledger": owned})
	command(t, p.env, "consumer", "pause", "search", "--reason", "the index moves to other disks", "--by", "ada").want(t, exitOK)
	p.truth.await("paused", p.monitor, map[string]map[string]expect{"search": unowned})
	for run := range 40 {
		p.old(fmt.Sprintf("0193f6c2-%04d", run), 60)
		if run == 20 { // a first reading, for the rates
			p.truth.await("filling", p.exporter, map[string]map[string]expect{"analytics": {"lag_events": zero, "position_high_id": equals(21 * 60)}})
		}
	}
	pgtest.Exec(t, p.pool, `UPDATE docket_events SET inserted_at = clock_timestamp() - interval '3 days 7 hours' WHERE id < 1200`)
	export := pgtest.Pool(t, p.export)
	pgtest.Exec(t, export, `INSERT INTO docket_export.losses (consumer_uid, consumer, kind, batch, first_id, last_id, events, certain, since, until, runs, reason)
		SELECT uid, name, 'pruned', 1, 301, 340, 40, true, now() - interval '15 days', now() - interval '14 days', jsonb_build_array(jsonb_build_object('run_id', $1::text, 'first_seq', 3, 'last_seq', 9)),
		       'ids 301 to 340 were gone when they were read, 14d3h after they were handed out' FROM docket_export.consumers WHERE name = 'ledger'`, "0193f6c2-a11e")
	p.truth.await("filled", p.exporter, map[string]map[string]expect{
		"analytics": {"lag_events": zero}, "ledger": {"lag_events": zero, "losses_open": equals(1)}, "billing": {"lag_events": equals(2400)}, "feed": {"lag_events": positive},
	})
}

// The page shows strangers what state everything is in, to every eye and to
// none, on a desk and on a phone, with its script and without.
func TestStatusPage(t *testing.T) {
	p := newPages(t)
	b := p.browser

	b.open(p.watch().url(), 1200, "light")
	b.await("main", "Nothing yet", "exporter run")
	b.await("#summary", "No consumer has a cursor yet")
	p.shoot("empty")

	p.fill()
	b.await("#summary", "3 of 6 consumers need a look") // the page of the monitor, which has refreshed itself
	b.open(p.exporter.url(), 1200, "light")
	for consumer, texts := range map[string][]string{
		"analytics": {"Caught up", "nothing waits", "14d", "100 % of 14d", "exporter-1", "2,400"},
		"audit":     {"Nothing to deliver yet"},
		"billing":   {"3d 7h behind", "2,400 events wait", "76 % of 14d"},
		"feed":      {"Stuck", "connection refused", "exporter check"},
		"search":    {"Paused by ada", "the index moves", "exporter consumer resume search --reason TEXT", "nobody"},
		"ledger":    {"Events may be lost", "At most 40 events lost, in 1 range of ids", "0193f6c2-a11e/3-9", "exporter cursor losses ledger"},
	} {
		b.await("#consumer-"+consumer, texts...)
	}
	b.await("footer", "exporter run on exporter-1", "RETENTION_EVENTS is 14d", "schema public")
	b.wantNames("main", "banner", "contentinfo", "heading Docket exporter", "heading analytics", "region ledger", "link status.json",
		"image The cursor is at the newest event. Docket deletes what is 14d old, which leaves 14d.")
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{1200, 360} {
			b.open(p.exporter.url(), width, theme)
			b.await("#consumer-billing", "behind")
			b.wantFit()
			b.wantContrast()
			p.shoot(fmt.Sprintf("status-%s-%d", theme, width))
		}
	}
	b.wantNoProblems()
	p.wantWithoutScript()
	p.wantHostileTextShown()
	p.wantSameContent()

	command(t, p.env, "backfill", "--consumer", "analytics", "--from", "earliest", "--detach", "--name", "history", "--rate", "10/s").want(t, exitOK)
	b.reload("main", "Backfills", "% done")
	b.reload("#consumer-history", "exporter-1")
	command(t, p.env, "status").want(t, exitPerson, "DONE", " %", "history")
	b.wantNames("region history")

	p.holdAnID()
	b.reload("#consumer-analytics", "1 id open", "Held by pid", "SELECT pg_terminate_backend(")
	p.letGo()

	defer func() { p.open(p.dsn); p.open(p.export) }()
	p.shut(p.dsn)
	b.reload("#main", "How far behind is unknown", "DOCKET_DATABASE_URL", "since 20")
	b.await("#consumer-search .figures", "Behind\nunknown", "Headroom\nunknown")
	b.wantNoProblems()
	p.shut(p.export)
	b.reload("#main", "The exporter's database does not tell", "unknown since 20", "EXPORT_DATABASE_URL")
	b.await("#summary", "The state is unknown")
	p.shoot("down")
	p.exporter.kill()
	b.await("#gone", "does not answer")
}

// Without its script the page shows the same, and asks to be loaded again.
func (p *pages) wantWithoutScript() {
	p.t.Helper()
	b := p.browser
	b.scripts(false)
	b.open(p.monitor.url(), 360, "light")
	b.await("#summary", "3 of 6 consumers need a look")
	b.await("#consumer-billing", "2,400 events wait")
	if refresh := ask[string](b, `document.querySelector("noscript meta")?.content ?? ""`); refresh != "10" {
		p.t.Errorf("the page is loaded again after %q seconds", refresh)
	}
	b.wantFit()
	b.scripts(true)
	b.wantNoProblems()
}

// Whatever an error or a run id holds is text.
func (p *pages) wantHostileTextShown() {
	p.t.Helper()
	export, b := pgtest.Pool(p.t, p.export), p.browser
	pgtest.Exec(p.t, export, `UPDATE docket_export.losses SET reason = $1, runs = jsonb_build_array(jsonb_build_object('run_id', $1::text, 'first_seq', 3))`, hostile+strings.Repeat("x", 3000))
	pgtest.Exec(p.t, export, `UPDATE docket_export.consumers SET paused_detail = $1 WHERE paused_at IS NOT NULL`, hostile)
	b.open(p.exporter.url(), 360, "light")
	b.await("#consumer-search", `<script>document.title="owned"</script>`)
	b.await("#consumer-ledger", `<img src=x onerror=alert(1)>&"'`+"\ufffd\ufffd[31m")
	if title := ask[string](b, `document.title`); strings.Contains(title, "owned") {
		p.t.Error("a script from an error has run")
	}
	if n := ask[int](b, `document.querySelectorAll("main script, main img").length`); n != 0 {
		p.t.Errorf("%d elements came from an error", n)
	}
	b.wantFit()
	b.wantNoProblems()
	resp, err := http.Get(p.exporter.url())
	if err != nil {
		p.t.Fatal(err)
	}
	resp.Body.Close()
	policy := resp.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || resp.Header.Get("Cache-Control") != "no-store" {
		p.t.Errorf("headers %v", resp.Header)
	}
}

// The page's JSON, of both processes, is that of the command, once they have
// read the same.
func (p *pages) wantSameContent() {
	p.t.Helper()
	for _, c := range []*child{p.exporter, p.monitor} {
		pgtest.Eventually(p.t, 30*time.Second, func() error {
			printed := command(p.t, p.env, "status", "--json", "--rates")
			served, kind, err := get(c.url() + "/status.json")
			if err != nil || kind != "application/json" {
				return fmt.Errorf("got %q, %v", kind, err)
			}
			if diff := cmp.Diff(steady(p.t, []byte(printed.stdout)), steady(p.t, served)); diff != "" {
				return fmt.Errorf("status --json and /status.json of %s differ:\n%s", c.cmd.Args[1], diff)
			}
			return nil
		})
	}
}

func get(url string) (body []byte, kind string, err error) {
	resp, err := http.Get(url)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return body, resp.Header.Get("Content-Type"), err
}

// steady is a report without what differs from one moment, and from one
// process, to the next. That a figure is there at all must not differ.
func steady(t *testing.T, text []byte) any {
	t.Helper()
	var report map[string]any
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	delete(report, "process")
	delete(report, "guard")
	delete(report["retention"].(map[string]any), "observed_seconds") // is looked at once a minute
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for name, x := range v {
				switch {
				case strings.HasSuffix(name, "_at"), strings.HasSuffix(name, "_seconds"), strings.HasSuffix(name, "_per_second"), strings.HasSuffix(name, "_ratio"),
					name == "at", name == "lease_until", name == "text", name == "attempt", name == "last_error", name == "words":
					v[name] = "moves"
				default:
					v[name] = walk(x)
				}
			}
			return v
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
			return v
		default:
			return v
		}
	}
	return walk(report)
}

func (p *pages) shoot(name string) {
	if *pictures != "" {
		p.browser.picture(filepath.Join(*pictures, name+".png"))
	}
}
