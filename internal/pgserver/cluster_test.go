package pgserver_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/docket-exporter/exporter/internal/pgserver"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

func start(t *testing.T, o pgserver.Options) *pgserver.Cluster {
	t.Helper()
	c, err := pgserver.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func query(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var text string
	if err := conn.QueryRow(t.Context(), sql).Scan(&text); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return text
}

func TestClusterLife(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	c := start(t, pgserver.Options{Settings: map[string]string{"application_name": `it's a \ test`, "log_statement": "all"}, Log: &log})
	dir := c.Dir()

	if got := query(t, c.URL("postgres"), "SHOW application_name"); got != `it's a \ test` {
		t.Errorf("application_name = %q", got)
	}
	if got := query(t, c.SocketURL("postgres"), "SHOW timezone"); got != "UTC" {
		t.Errorf("timezone = %q", got)
	}
	query(t, c.URL("postgres"), "WITH x AS (SELECT 1) SELECT 'before'")
	conn, err := pgx.Connect(t.Context(), c.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "CREATE TABLE kept (word text); INSERT INTO kept VALUES ('yes')"); err != nil {
		t.Fatal(err)
	}

	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("a session survived Kill")
	}
	if err := c.Signal(syscall.SIGHUP); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Signal on a dead server = %v, want os.ErrProcessDone", err)
	}
	port := c.Port()
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []pgserver.Mode{pgserver.Fast, pgserver.Immediate} {
		if got := query(t, c.URL("postgres"), "SELECT word FROM kept"); got != "yes" {
			t.Errorf("before restart %s: word = %q", mode, got)
		}
		if err := c.Restart(t.Context(), mode); err != nil {
			t.Fatal(err)
		}
	}
	if c.Port() != port {
		t.Errorf("port moved from %d to %d", port, c.Port())
	}
	for range 2 {
		if err := c.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("temporary directory after Stop: %v", err)
	}
	if !strings.Contains(log.String(), "ready to accept connections") {
		t.Errorf("Options.Log received %q", log.String())
	}
}

func TestStandbyIsPromoted(t *testing.T) {
	t.Parallel()
	primary := start(t, pgserver.Options{})
	standby, err := primary.BaseBackup(t.Context(), pgserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if got := query(t, standby.URL("postgres"), "SELECT pg_is_in_recovery()::text"); got != "true" {
		t.Errorf("standby in recovery = %s", got)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query(t, standby.URL("postgres"), "SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)"); got != "00000002" {
		t.Errorf("timeline after promotion = %s", got)
	}
}

func TestStartErrorCarriesLog(t *testing.T) {
	t.Parallel()
	_, err := pgserver.Start(t.Context(), pgserver.Options{Settings: map[string]string{"no_such_setting": "1"}})
	if err == nil || !strings.Contains(err.Error(), `unrecognized configuration parameter "no_such_setting"`) {
		t.Errorf("error = %v, want the server's own words", err)
	}
}

func TestDirIsKeptAndStartedAgain(t *testing.T) {
	t.Parallel()
	parent, err := os.MkdirTemp("/tmp", "pgserver-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(parent) })
	if err := os.Chmod(parent, 0o711); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(parent, "cluster")
	first := start(t, pgserver.Options{Dir: dir, Durable: true})
	id := query(t, first.URL("postgres"), "SELECT system_identifier::text FROM pg_control_system()")
	if got := query(t, first.URL("postgres"), "SHOW fsync"); got != "on" {
		t.Errorf("fsync of a durable cluster = %s", got)
	}
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := start(t, pgserver.Options{Dir: dir})
	if got := query(t, second.URL("postgres"), "SELECT system_identifier::text FROM pg_control_system()"); got != id {
		t.Errorf("system identifier = %s, was %s", got, id)
	}
}

func TestUntraversableDirIsExplained(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		// Without root the server runs as ourselves and there is nothing to refuse.
		return
	}
	locked, err := os.MkdirTemp("", "pgserver-test-") // 0700
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(locked) })
	_, err = pgserver.Start(t.Context(), pgserver.Options{Dir: filepath.Join(locked, "cluster")})
	if err == nil || !strings.Contains(err.Error(), "chmod o+x "+locked) {
		t.Errorf("error = %v, want what to chmod", err)
	}
}

// childEnv makes the test binary start a cluster, tell its port, and hang.
const childEnv = "PGSERVER_TEST_CHILD"

func TestServerEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), childEnv+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	line := make([]byte, 4096)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	addr, dir, ok := strings.Cut(strings.TrimSpace(string(line[:n])), " ")
	if !ok {
		t.Fatalf("child said %q", line[:n])
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })

	if err := child.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	pgtest.Until(t, 10*time.Second, "the server to end with the killed process that started it", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	pgtest.Until(t, 10*time.Second, "its pid file to go, the last after the children", func() bool {
		_, err := os.Stat(filepath.Join(dir, "data", "postmaster.pid"))
		return errors.Is(err, os.ErrNotExist)
	})
	// The next one to start clears what the killed process left.
	next := start(t, pgserver.Options{})
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory of the killed process: %v", err)
	}
	if _, err := os.Stat(next.Dir()); err != nil {
		t.Error(err)
	}
}
