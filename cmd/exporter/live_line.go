package main

import (
	"context"
	"fmt"
	"io"
	"time"
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
		fmt.Fprint(l.out, line)
	case urgent || time.Since(l.said) >= lineInterval:
		fmt.Fprintln(l.out, line)
		l.said = time.Now()
	}
}

func (l *liveLine) clear() { fmt.Fprint(l.out, "\r\x1b[K") }
