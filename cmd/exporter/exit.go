package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
)

// Exit codes of every command.
const (
	exitOK     = 0 // done
	exitFailed = 1 // failed; trying again may help
	exitUsage  = 2 // the command line or the configuration is wrong
	exitPerson = 3 // only a person can help
)

// exitError is an error with the exit code it leads to.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usage marks err as a mistake in the command line or the configuration.
func usage(err error) error { return &exitError{exitUsage, err} }

// needsPerson marks err as one that goes away only when a person acts.
func needsPerson(err error) error { return &exitError{exitPerson, err} }

// silentError ends a command whose result already says what is wrong.
type silentError struct{ code int }

func (e *silentError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// withHint adds what to do to what went wrong.
func withHint(err error, hint string) error {
	if hint == "" {
		return err
	}
	return &hintError{err, hint}
}

type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() + "; " + e.hint }
func (e *hintError) Unwrap() error { return e.err }

func exitCode(err error) int {
	var silent *silentError
	var exit *exitError
	var pause *exporter.PauseError
	var paused *cursor.PausedError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &silent):
		return silent.code
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &pause) || errors.As(err, &paused):
		return exitPerson
	default:
		return exitFailed
	}
}

// printError prints err once, its further lines indented.
func printError(w io.Writer, err error) {
	var silent *silentError
	if errors.As(err, &silent) {
		return
	}
	text := err.Error()
	if errors.Is(err, context.Canceled) {
		text = "interrupted: " + text
	}
	fmt.Fprintln(w, "exporter: "+strings.ReplaceAll(text, "\n", "\n  "))
}
