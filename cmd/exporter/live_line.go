package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

const (
	barInterval  = time.Second      // between two looks, which a terminal shows all
	lineInterval = 10 * time.Second // between two lines elsewhere
)

// liveLine tells on stderr how far a command is: as one line that changes on a
// terminal, and else as a line now and then.
type liveLine struct {
	out      io.Writer
	terminal bool
	said     time.Time // when the last line was printed that is no terminal's
}

func newLiveLine(p *process) liveLine {
	return liveLine{out: p.stderr, terminal: isTerminal(p.stderr)}
}

// keep calls show at once and each second until stop is called.
func (l *liveLine) keep(ctx context.Context, show func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		show(ctx)
		for waitFor(ctx, barInterval) {
			show(ctx)
		}
		if l.terminal {
			l.clear()
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// print shows a line; where it is no terminal, only when it is time for one, or
// urgent.
func (l *liveLine) print(line string, urgent bool) {
	switch {
	case l.terminal:
		l.clear()
		fmt.Fprint(l.out, fitted(line, l.width()))
	case urgent || time.Since(l.said) >= lineInterval:
		fmt.Fprintln(l.out, line)
		l.said = time.Now()
	}
}

// width is how many characters a line of the terminal has.
func (l *liveLine) width() int {
	if f, ok := l.out.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
			return int(size.Col)
		}
	}
	return usualWidth
}

// usualWidth is that of a terminal which does not say.
const usualWidth = 80

// fitted cuts a line so that a terminal does not go on with it below, where it
// could not be cleared. The last column stays empty: some wrap already there.
func fitted(line string, width int) string {
	if utf8.RuneCountInString(line) < width {
		return line
	}
	return string([]rune(line)[:max(0, width-2)]) + "…"
}

func (l *liveLine) clear() { fmt.Fprint(l.out, "\r\x1b[K") }
