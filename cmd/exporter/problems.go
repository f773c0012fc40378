package main

import (
	"errors"
	"fmt"
	"slices"
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
type problems struct{ list []error }

func (ps *problems) add(variable, format string, args ...any) {
	ps.list = append(ps.list, &problem{variable, fmt.Sprintf(format, args...)})
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
	return usage(&configurationError{errors.Join(ps.list...)})
}

// configurationError puts a heading above the joined problems.
type configurationError struct{ joined error }

func (e *configurationError) Error() string {
	text := e.joined.Error()
	if n := strings.Count(text, "\n") + 1; n > 1 {
		return fmt.Sprintf("the configuration has %d problems:\n%s", n, text)
	}
	return text
}

func (e *configurationError) Unwrap() error { return e.joined }
