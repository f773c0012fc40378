package main

import (
	"fmt"
	"strconv"
	"strings"
)

// Rate is events a second; 0 is no limit.
type Rate float64

// Set reads 5000/s, 5000 or 300/m.
func (r *Rate) Set(text string) error {
	number, unit, _ := strings.Cut(strings.TrimSpace(text), "/")
	seconds, known := map[string]float64{"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}[unit]
	n, err := strconv.ParseFloat(strings.ReplaceAll(number, "_", ""), 64)
	if err != nil || !known || !(n/seconds >= 0.01 && n/seconds <= 1e9) {
		return fmt.Errorf("%q is not a rate; write events a second such as 5000/s, or 300/m for a minute", text)
	}
	*r = Rate(n / seconds)
	return nil
}

func (r *Rate) String() string {
	if *r == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*r), 'g', 6, 64) + "/s"
}

// Type names the form of the value in help.
func (r *Rate) Type() string { return "rate" }

// Set reads a duration as variables hold it.
func (d *Duration) Set(text string) error { return d.UnmarshalText([]byte(text)) }

// Type names the form of the value in help.
func (d *Duration) Type() string { return "duration" }
