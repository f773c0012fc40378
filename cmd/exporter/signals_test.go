package main

import (
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

// A lost terminal stops a backfill as ctrl-C does, but not one under nohup.
func TestLostTerminal(t *testing.T) {
	t.Parallel()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // else what is started from under nohup ignores it, too
	defer signal.Stop(hangups)
	s := newSite(t)
	s.insert("a", 150)
	command(t, s.env, "run", "--once").want(t, exitOK)
	ask := []string{"backfill", "--consumer", "analytics", "--from", "earliest", "--name", "history", "--rate", "10/s"}
	c := start(t, s.env, "", ask...)
	pgtest.Until(t, 20*time.Second, "the first events", func() bool { return s.accepted("history") > 0 })
	c.signal(syscall.SIGHUP)
	if code := c.wait(20 * time.Second); code != exitFailed || !strings.Contains(c.stderr.String(), "the same command goes on from there") {
		t.Fatalf("exit code %d\n%s", code, c.stderr)
	}
	if at := s.status("history"); at.Owner != "" || at.Intent != nil {
		t.Fatalf("status %+v", at)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	before := s.accepted("history")
	ask[len(ask)-1] = "100/s"
	c = startCommand(t, s.env, "", append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, self}, ask...)...)
	pgtest.Until(t, 20*time.Second, "it to go on", func() bool { return s.accepted("history") > before })
	c.signal(syscall.SIGHUP)
	if code := c.wait(30 * time.Second); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, c.stderr)
	}
	wantOnce(t, s.lines("history"), 150)
}
