package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Duration is a time span that is not negative. Beside Go's units it has d for
// 24 hours.
type Duration time.Duration

// UnmarshalText reads 500ms, 20s, 7d or 7d12h.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := parseDuration(string(text))
	*d = Duration(v)
	return err
}

// Value returns the span as the standard library's type.
func (d Duration) Value() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

// longestDuration is what a time.Duration can hold, in whole days.
const longestDuration = int64(math.MaxInt64 / (24 * time.Hour))

func parseDuration(s string) (time.Duration, error) {
	tooLong := fmt.Errorf("%q is too long; the longest duration is %dd", s, longestDuration)
	wrong := fmt.Errorf("%q is not a duration; write a number and a unit, such as 500ms, 20s, 15m, 12h or 7d", s)
	rest, days := s, time.Duration(0)
	if number, after, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseFloat(number, 64)
		switch {
		case err != nil || !(n >= 0) || !plainNumber.MatchString(number):
			return 0, wrong
		case n >= float64(longestDuration):
			return 0, tooLong
		}
		rest, days = after, time.Duration(n*24*float64(time.Hour))
	}
	if rest == "" && s != "" {
		return days, nil
	}
	d, err := time.ParseDuration(rest)
	switch {
	case err != nil && spans.MatchString(rest) || err == nil && d > math.MaxInt64-days:
		return 0, tooLong
	case err != nil || d < 0:
		return 0, wrong
	}
	return days + d, nil
}

var (
	plainNumber = regexp.MustCompile(`^[0-9.]+$`)
	spans       = regexp.MustCompile(`^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`) // which Go refuses only for their size
)

// Retention is how long Docket keeps events. The zero value means for ever.
type Retention time.Duration

// UnmarshalText reads a duration, or none.
func (r *Retention) UnmarshalText(text []byte) error {
	if string(text) == "none" {
		*r = 0
		return nil
	}
	d, err := parseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%w, or none when nothing prunes events", err)
	}
	if d == 0 {
		return fmt.Errorf("%q keeps no event; write Docket's event retention such as 14d, or none when nothing prunes events", text)
	}
	*r = Retention(d)
	return nil
}

// Value returns the retention, 0 for none.
func (r Retention) Value() time.Duration { return time.Duration(r) }

// String is the retention as a person writes it: 14d, 1d12h0m0s or none.
func (r Retention) String() string {
	const day = 24 * time.Hour
	switch d := r.Value(); {
	case d == 0:
		return "none"
	case d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d > day:
		return fmt.Sprintf("%dd%v", d/day, d%day)
	default:
		return d.String()
	}
}

// Count is a number of things, at least 1.
type Count int

// UnmarshalText reads a positive whole number.
func (c *Count) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a count; write a whole number from 1 to %d", text, math.MaxInt32)
	}
	*c = Count(n)
	return nil
}

// Size is a number of bytes.
type Size int64

var sizeUnits = map[string]float64{
	"": 1, "b": 1,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}

// UnmarshalText reads 8MiB, 500KB or a plain number of bytes.
func (z *Size) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit, known := sizeUnits[strings.ToLower(strings.TrimSpace(s[len(digits):]))]
	n, err := strconv.ParseFloat(digits, 64)
	if !known || err != nil || !(n >= 1 && n*unit < 1<<62) {
		return fmt.Errorf("%q is not a size; write bytes, or a number with KB, MB, GB, KiB, MiB or GiB, such as 8MiB", text)
	}
	*z = Size(n * unit)
	return nil
}
