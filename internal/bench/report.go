package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"
)

// report is the table at the end.
type report struct{ lines []line }

type line struct{ measurement, value, target, verdict string }

// note adds a number that has no target.
func (r *report) note(measurement, format string, args ...any) {
	r.lines = append(r.lines, line{measurement: measurement, value: fmt.Sprintf(format, args...)})
}

// judge adds a number with its target.
func (r *report) judge(measurement, value, target string, met bool) {
	verdict := "met"
	if !met {
		verdict = "MISSED"
	}
	r.lines = append(r.lines, line{measurement, value, target, verdict})
}

func (r *report) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "measurement\tvalue\ttarget\t")
	for _, l := range r.lines {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", l.measurement, l.value, l.target, l.verdict)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// sample is what one thing took in several turns.
type sample []float64

// median is the middle value, or the mean of the two in the middle.
func (s sample) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// quantile is the least value that at least a share q of the sample does not
// exceed.
func (s sample) quantile(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// perSecond is a rate of rows.
func perSecond(rows int, took time.Duration) float64 { return float64(rows) / took.Seconds() }

// perMillion is processor seconds per million rows.
func perMillion(rows int, took time.Duration) float64 { return took.Seconds() * 1e6 / float64(rows) }

func mebibytes(bytes float64) string { return fmt.Sprintf("%.0f MiB", bytes/(1<<20)) }
