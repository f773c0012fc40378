package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// problem is one thing that is wrong with one variable.
type problem struct {
	Variable string
	Text     string // what is wrong and what to do; never a secret value
}

func (p *problem) Error() string { return p.Variable + " " + p.Text }

// problems collects everything that is wrong, so that it is reported at once.
type problems struct {
	list   []error
	hidden []string // values that are not repeated
}

// newProblems keeps out of all messages the values that hold a connection
// string, in whatever variable: it may have been given in a wrong one.
func newProblems(environ map[string]string) *problems {
	ps := &problems{}
	for _, value := range environ {
		if len(value) > 8 && looksSecret(value) {
			ps.hidden = append(ps.hidden, value)
		}
	}
	return ps
}

func (ps *problems) add(variable, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, h := range ps.hidden {
		for _, spelling := range []string{strconv.Quote(h), h} {
			text = strings.ReplaceAll(text, spelling, "a value that is not shown because it looks like a connection string")
		}
	}
	ps.list = append(ps.list, &problem{variable, oneLine(text)})
}

// mentions reports whether something is known to be wrong with the variable or
// with the file that stands for it.
func (ps *problems) mentions(variable string) bool {
	return slices.ContainsFunc(ps.list, func(err error) bool {
		p, ok := errors.AsType[*problem](err)
		return ok && (p.Variable == variable || p.Variable == variable+"_FILE")
	})
}

func (ps *problems) atLeast(variable string, d Duration, least time.Duration) {
	if d.Value() < least && !ps.mentions(variable) {
		ps.add(variable, "is %v; it must be at least %v", d, least)
	}
}

// err returns nil, or all problems as one error of usage.
func (ps *problems) err() error {
	if len(ps.list) == 0 {
		return nil
	}
	return usage(&configurationError{errors.Join(ps.list...), len(ps.list)})
}

// configurationError puts a heading above the joined problems.
type configurationError struct {
	joined error
	count  int
}

func (e *configurationError) Error() string {
	if e.count > 1 {
		return fmt.Sprintf("the configuration has %d problems:\n%v", e.count, e.joined)
	}
	return e.joined.Error()
}

func (e *configurationError) Unwrap() error { return e.joined }
