package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Levels of a finding.
const (
	levelOK   = "ok"
	levelWarn = "warn"
	levelFail = "fail"
)

// finding is one thing that check looked at.
type finding struct {
	Level   string `json:"level"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Hint    string `json:"hint,omitempty"` // what to do

	code int // exit code that a failure leads to
}

type findings struct{ list []finding }

func (f *findings) add(x finding) { f.list = append(f.list, x) }

func (f *findings) ok(subject, text string) {
	f.add(finding{Level: levelOK, Subject: subject, Text: text})
}

// exitCode is the one of the failure that has to be put right first: a wrong
// configuration, then what needs a person, then what may pass by itself.
func (f *findings) exitCode() int {
	for _, code := range []int{exitUsage, exitPerson, exitFailed} {
		if slices.ContainsFunc(f.list, func(x finding) bool { return x.Level == levelFail && x.code == code }) {
			return code
		}
	}
	return exitOK
}

func (f *findings) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return writeJSON(w, f.list)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, x := range f.list {
		level := x.Level
		if level == levelFail {
			level = "FAIL"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", level, x.Subject, oneLine(x.Text))
		if x.Hint != "" {
			fmt.Fprintf(t, "\t\t-> %s\n", oneLine(x.Hint))
		}
	}
	return t.Flush()
}
