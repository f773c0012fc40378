package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

// The line of a terminal is never wider than it: it could not be cleared.
func TestProgressFitsTheTerminal(t *testing.T) {
	s := newSite(t)
	s.insert("a", 50)
	command(t, s.env, "run", "--once").want(t, exitOK)
	pgtest.Exec(t, s.pool, `UPDATE docket_export.consumers SET owner = 'somebody', lease_until = now() + interval '1 hour', caught_up_at = now() - interval '9 seconds'`)
	const columns = 60
	far, got := terminal(t, columns)
	done := make(chan int, 1)
	go func() {
		done <- Main(t.Context(), []string{"backfill", "--consumer", "analytics", "--from", "earliest", "--name", "history"},
			environ(s.env), strings.NewReader(""), io.Discard, far)
	}()
	pgtest.Until(t, 20*time.Second, "it to wait", func() bool { return strings.Contains(got.String(), "waits: analytics") })
	pgtest.Exec(t, s.pool, `UPDATE docket_export.consumers SET caught_up_at = now() WHERE name = 'analytics'`)
	if code := <-done; code != exitOK {
		t.Fatalf("exit code %d\n%s", code, got)
	}
	for line := range strings.SplitSeq(got.String(), "\r\x1b[K") {
		if n := utf8.RuneCountInString(line); n >= columns {
			t.Errorf("%d characters: %q", n, line)
		}
	}
	for text, want := range map[string]string{"": "", "12345678": "12345678", "123456789": "123456789", "1234567890": "12345678…", "ééééééééé": "ééééééééé"} {
		if got := fitted(text, 10); got != want {
			t.Errorf("%q is cut to %q", text, got)
		}
	}
}

// terminal returns the program's end of a terminal of so many columns, and what
// it shows.
func terminal(t *testing.T, columns uint16) (far *os.File, shown *lockedBuffer) {
	t.Helper()
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(near.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(near.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(near.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
	}
	if err == nil {
		far, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	shown = &lockedBuffer{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(shown, near) // ends with an error when the far end is closed
	}()
	t.Cleanup(func() {
		far.Close()
		<-read
		near.Close()
	})
	return far, shown
}
