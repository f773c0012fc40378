package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/docketsim"
	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/internal/verdict"
)

// shownDemo is a demo in a process of its own, run from the binary that users
// get: it starts itself again.
type shownDemo struct {
	t     *testing.T
	cmd   *exec.Cmd
	mark  string // in the environment of every process it starts
	words bytes.Buffer
	lines chan string
}

func showDemo(t *testing.T, env ...string) *shownDemo {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "exporter")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	d := &shownDemo{t: t, cmd: exec.Command(binary, "demo"), mark: fmt.Sprintf("MARKED_FOR_TEST=%s-%d", t.Name(), os.Getpid())}
	d.cmd.Env = append(append(os.Environ(), "TMPDIR="+t.TempDir(), d.mark), env...)
	d.cmd.Stderr = &d.words
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.cmd.Process.Kill() }) // it has ended unless the test failed
	d.lines = make(chan string, 1000)
	go func() {
		defer close(d.lines)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			d.lines <- s.Text()
		}
	}()
	return d
}

// until reads lines until one matches, and returns all of them.
func (d *shownDemo) until(pattern string) string {
	d.t.Helper()
	var text strings.Builder
	deadline := time.After(time.Minute)
	for {
		select {
		case line, ok := <-d.lines:
			if !ok {
				d.t.Fatalf("the demo ended without a line like %s:\n%s%s", pattern, text.String(), d.words.String())
			}
			text.WriteString(line + "\n")
			if regexp.MustCompile(pattern).MatchString(line) {
				return text.String()
			}
		case <-deadline:
			d.t.Fatalf("no line like %s in a minute:\n%s", pattern, text.String())
		}
	}
}

// end reads the remaining lines and wants exit code 0.
func (d *shownDemo) end() string {
	d.t.Helper()
	var text strings.Builder
	for line := range d.lines {
		text.WriteString(line + "\n")
	}
	if err := d.cmd.Wait(); err != nil {
		d.t.Fatalf("demo: %v\n%s%s", err, text.String(), d.words.String())
	}
	return text.String()
}

// progressLine is one with events written, exported, and an open or filled hole.
const progressLine = `^ +\d+ +[1-9]\d* +[1-9]\d* +\d+ +\d+ +\d+$`

// wantVerdict wants a clean verdict on many events, some of which the naive
// reader lost.
func wantVerdict(t *testing.T, text string) {
	t.Helper()
	for _, pattern := range []string{
		`(?m)^[1-9]\d{2,} events, 0 missing, 0 out of order, 0 duplicated$`,
		`(?m)^a plain "id > last" reader would have lost [1-9]\d* of them \(\d+\.\d %\)$`,
	} {
		if !regexp.MustCompile(pattern).MatchString(text) {
			t.Errorf("no line like %s in:\n%s", pattern, text)
		}
	}
}

// nothingRuns waits until no process of the demo is left: neither one that
// inherited its mark nor one that works in the server's directory.
func (d *shownDemo) nothingRuns(server string) {
	d.t.Helper()
	pgtest.Eventually(d.t, 15*time.Second, func() error {
		entries, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			return err
		}
		for _, entry := range entries {
			environ, _ := os.ReadFile(filepath.Join(entry, "environ")) // it may just have ended
			cwd, _ := os.Readlink(filepath.Join(entry, "cwd"))
			if strings.Contains(string(environ), d.mark) || server != "" && strings.HasPrefix(cwd, server) {
				command, _ := os.ReadFile(filepath.Join(entry, "cmdline"))
				return fmt.Errorf("process %s is left: %q in %s", filepath.Base(entry), command, cwd)
			}
		}
		return nil
	})
}

var serverDir = regexp.MustCompile(`in (/\S*pgserver-\S+)`)

func TestDemo(t *testing.T) {
	t.Parallel()
	d := showDemo(t, "DEMO_SECONDS=5", "EXPORTER_NONSENSE=1", "CONSUMER_DEMO_START=latest", "PGDATABASE=nonsense")
	began := time.Now()
	text := d.until(progressLine)
	t.Logf("first line after %v", time.Since(began))
	server := serverDir.FindStringSubmatch(text)
	if server == nil {
		t.Fatalf("the server's directory is not said:\n%s", text)
	}
	files := regexp.MustCompile(`(?m)^files +(\S+)$`).FindStringSubmatch(text)
	if files == nil {
		t.Fatalf("the files' directory is not said:\n%s", text)
	}
	text = d.end()
	wantVerdict(t, text)
	if n := len(regexp.MustCompile("(?m)"+progressLine).FindAllString(text, -1)); n < 3 {
		t.Errorf("%d more lines of progress in 4 seconds:\n%s", n, text)
	}
	for _, dir := range []string{server[1], filepath.Dir(files[1])} {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
	d.nothingRuns(server[1])
}

// However the demo ends, its server and its exporter end with it.
func TestDemoKilled(t *testing.T) {
	t.Parallel()
	d := showDemo(t)
	server := serverDir.FindStringSubmatch(d.until(progressLine))
	if server == nil {
		t.Fatal("the server's directory is not said")
	}
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = d.cmd.Wait() // killed, as asked
	d.nothingRuns(server[1])
	if err := os.RemoveAll(server[1]); err != nil {
		t.Error(err)
	}
}

// Ctrl-C ends it with a verdict; a given database is left as it was.
func TestDemoOnAGivenDatabase(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	kept := filepath.Join(t.TempDir(), "kept")
	d := showDemo(t, "DEMO_DATABASE_URL="+dsn, "DEMO_DIR="+kept)
	d.until(progressLine)
	d.until(progressLine)
	if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, d.end())
	d.nothingRuns("")
	conn := pgtest.Connect(t, dsn)
	if left := pgtest.Value[int](t, conn, `SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'docket%'`); left != 0 {
		t.Errorf("%d schemas are left", left)
	}
	segments, err := filepath.Glob(filepath.Join(kept, "*", "events", "demo-*.jsonl"))
	if err != nil || len(segments) == 0 {
		t.Errorf("DEMO_DIR holds no segments: %v", err)
	}
}

func TestDemoFindsALostLine(t *testing.T) {
	env, _ := installed(t)
	dsn, dir := env["DOCKET_DATABASE_URL"], t.TempDir()
	pool := pgtest.Pool(t, dsn)
	if err := docketsim.Load(t.Context(), pool, "public", 100, docketsim.LoadOptions{Age: time.Hour}); err != nil {
		t.Fatal(err)
	}
	env = map[string]string{
		"DOCKET_DATABASE_URL": dsn, "RETENTION_EVENTS": "none", "EXPORTER_CONSUMERS": demoConsumer, "EXPORTER_HTTP_ADDR": "127.0.0.1:0",
		"CONSUMER_DEMO_SINK": "file", "CONSUMER_DEMO_FILE_DIR": dir,
	}
	command(t, env, "run", "--once").want(t, exitOK)
	var out bytes.Buffer
	d := &demo{
		out: &out, pool: pool, database: &demoDatabase{schema: "public"}, files: &demoFiles{events: dir},
		naive: &verdict.NaiveReader{Pool: pool, Schema: "public"},
	}
	if err := d.judge(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	removeLine(t, dir, 42)
	err := d.judge(t.Context())
	if exitCode(err) != exitFailed || !strings.Contains(out.String(), "100 events, 1 missing, 0 out of order, 0 duplicated\n") {
		t.Errorf("exit code %s, %v\n%s", strconv.Itoa(exitCode(err)), err, out.String())
	}
}

// removeLine takes one line out of the only segment in dir.
func removeLine(t *testing.T, dir string, line int) {
	t.Helper()
	names, err := fs.Glob(os.DirFS(dir), "*.jsonl")
	if err != nil || len(names) != 1 {
		t.Fatalf("segments %q, %v", names, err)
	}
	path := filepath.Join(dir, names[0])
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if err := os.WriteFile(path, bytes.Join(append(lines[:line:line], lines[line+1:]...), nil), 0o600); err != nil {
		t.Fatal(err)
	}
}
