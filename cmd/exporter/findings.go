package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	exporter "github.com/docket-exporter/exporter"
)

// finding is one thing that check looked at.
type finding struct {
	Level   exporter.Level `json:"level"`
	Subject string         `json:"subject"`
	Text    string         `json:"text"`
	Hint    string         `json:"hint,omitempty"` // what to do

	code int // exit code that a failure leads to
}

type findings struct{ list []finding }

func (f *findings) add(x finding) { f.list = append(f.list, x) }

func (f *findings) ok(subject, text string) {
	f.add(finding{Level: exporter.LevelOK, Subject: subject, Text: text})
}

// take takes findings over from a source or a sink. What is wrong there does
// not go away by itself.
func (f *findings) take(subject string, list []exporter.Finding) {
	for _, x := range list {
		f.add(finding{Level: x.Level, Subject: subject, Text: x.Text, Hint: x.Hint, code: exitPerson})
	}
}

// exitCode is the one of the failure that has to be put right first: a wrong
// configuration, then what needs a person, then what may pass by itself.
func (f *findings) exitCode() int {
	for _, code := range []int{exitUsage, exitPerson, exitFailed} {
		if slices.ContainsFunc(f.list, func(x finding) bool { return x.Level == exporter.LevelFail && x.code == code }) {
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
		if level == exporter.LevelFail {
			level = "FAIL"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", level, x.Subject, oneLine(x.Text))
		if x.Hint != "" {
			fmt.Fprintf(t, "\t\t-> %s\n", oneLine(x.Hint))
		}
	}
	return t.Flush()
}
