package verdict_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/internal/verdict"
	"github.com/docket-exporter/exporter/sinks/file"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// story is a table of two runs, r with three events and s with two.
var story = []exporter.Identity{
	{RunID: "r", Seq: 1, EventID: 10},
	{RunID: "s", Seq: 1, EventID: 11},
	{RunID: "r", Seq: 2, EventID: 12},
	{RunID: "r", Seq: 3, EventID: 13},
	{RunID: "s", Seq: 2, EventID: 14},
}

func rows() []verdict.Row {
	var out []verdict.Row
	for _, i := range story {
		out = append(out, verdict.Row{Identity: i})
	}
	return out
}

// lines are the story's events by their place in it.
func lines(order ...int) []verdict.Line {
	var out []verdict.Line
	for n, i := range order {
		out = append(out, verdict.Line{Identity: story[i], File: "f", Number: n + 1})
	}
	return out
}

func TestCompareFindsWhatIsWrong(t *testing.T) {
	foreign := verdict.Line{Identity: exporter.Identity{RunID: "r", Seq: 2, EventID: 99}}
	for name, c := range map[string]struct {
		lines   []verdict.Line
		want    verdict.Result
		example string
	}{
		"clean":           {lines(0, 1, 2, 3, 4), verdict.Result{}, ""},
		"runs in turn":    {lines(1, 4, 0, 2, 3), verdict.Result{}, ""},
		"nothing":         {nil, verdict.Result{Missing: 5}, "missing: r/1, event 10"},
		"one missing":     {lines(0, 1, 3, 4), verdict.Result{Missing: 1}, "missing: r/2, event 12"},
		"late":            {lines(0, 1, 3, 2, 4), verdict.Result{OutOfOrder: 1}, "out of order: r/2, event 12 in f:4, after seq 3"},
		"again":           {lines(0, 1, 2, 3, 4, 4), verdict.Result{Duplicated: 1}, "duplicated: s/2, event 14 in f:6"},
		"a batch again":   {lines(0, 2, 0, 2, 3, 1, 4), verdict.Result{Duplicated: 2}, "duplicated: r/1"},
		"again and late":  {lines(0, 3, 0, 2, 1, 4), verdict.Result{Duplicated: 1, OutOfOrder: 1}, "duplicated: r/1"},
		"of another life": {append(lines(0, 1, 2, 3, 4), foreign), verdict.Result{Extra: 1}, "not in the table: r/2, event 99"},
	} {
		t.Run(name, func(t *testing.T) {
			got := verdict.Compare(rows(), c.lines)
			if got.Events != 5 || got.Missing != c.want.Missing || got.OutOfOrder != c.want.OutOfOrder ||
				got.Duplicated != c.want.Duplicated || got.Extra != c.want.Extra {
				t.Errorf("got %s", got)
			}
			if wrong := c.example != ""; wrong == got.Clean() {
				t.Errorf("%s is called clean: %v", got, got.Clean())
			}
			if c.example != "" && (len(got.Examples) == 0 || !strings.HasPrefix(got.Examples[0], c.example)) {
				t.Errorf("examples %q, want first %q", got.Examples, c.example)
			}
		})
	}
}

func TestVerdictInWords(t *testing.T) {
	r := verdict.Result{Events: 7, Missing: 1, OutOfOrder: 2, Duplicated: 3}
	if got, want := r.String(), "7 events, 1 missing, 2 out of order, 3 duplicated"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r.Extra = 4
	if got := r.String(); !strings.HasSuffix(got, ", 4 not in the table") {
		t.Errorf("extra lines are not named in %q", got)
	}
}

// A table and files written by the real sink, then damaged.
func TestReadTableAndFiles(t *testing.T) {
	pool := pgtest.Pool(t, pgtest.Database(t))
	schema := `Odd "schema"`
	if err := docketsim.Install(t.Context(), pool, schema); err != nil {
		t.Fatal(err)
	}
	if err := docketsim.Load(t.Context(), pool, schema, 200, docketsim.LoadOptions{Age: time.Hour}); err != nil {
		t.Fatal(err)
	}
	table, err := verdict.Table(t.Context(), pool, schema, nil)
	if err != nil || len(table) != 200 {
		t.Fatalf("%d rows, %v", len(table), err)
	}
	dir := t.TempDir()
	deliver(t, dir, table[:120])
	deliver(t, dir, table[120:])
	read := func(keep func(verdict.Row) bool) verdict.Result {
		t.Helper()
		r, err := verdict.Read(t.Context(), pool, schema, keep, dir, "feed")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := read(nil); !r.Clean() || r.Events != 200 {
		t.Fatalf("untouched: %s %q", r, r.Examples)
	}
	started := func(row verdict.Row) bool { return row.Type == "run_initialized" }
	if r := read(started); r.Events == 0 || r.Extra != 200-r.Events {
		t.Errorf("of selected rows: %s", r)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "feed-*.jsonl"))
	if err != nil || len(segments) != 2 {
		t.Fatalf("segments %q, %v", segments, err)
	}
	text, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	all := strings.SplitAfter(string(text), "\n")
	write := func(path, content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(segments[0], strings.Join(append(all[:50:50], all[51:]...), ""))
	if r := read(nil); r.Missing != 1 || r.Clean() || len(r.Examples) != 1 {
		t.Errorf("a line removed: %s %q", r, r.Examples)
	}
	// Half a line in an open segment was never accepted; in a finished one it
	// is a broken promise.
	write(segments[0], string(text))
	write(segments[1]+".part", all[0]+all[1][:20])
	if r := read(nil); r.Duplicated != 1 || r.Missing != 0 {
		t.Errorf("with an open segment: %s %q", r, r.Examples)
	}
	for name, content := range map[string]string{
		"half a line":   all[0] + all[1][:20],
		"no event":      "{}\n",
		"no JSON":       all[0][:20] + "\n",
		"another's key": strings.Replace(all[0], `"seq":`, `"seq":9`, 1),
	} {
		write(segments[0], content)
		if _, err := verdict.Read(t.Context(), pool, schema, nil, dir, "feed"); err == nil || !strings.Contains(err.Error(), segments[0]+":") {
			t.Errorf("%s: error %v, want one that names file and line", name, err)
		}
	}
}

// deliver writes rows as one segment.
func deliver(t *testing.T, dir string, rows []verdict.Row) {
	t.Helper()
	sink, err := file.Open(file.Config{Dir: dir}, "feed")
	if err != nil {
		t.Fatal(err)
	}
	var batch exporter.Batch
	for _, r := range rows {
		batch.Events = append(batch.Events, exporter.Event{ID: r.EventID, RunID: r.RunID, Seq: r.Seq, Type: r.Type})
	}
	if err := sink.Deliver(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
}
