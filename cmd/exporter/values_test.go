package main

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "100ms": 100 * time.Millisecond, "7d": 168 * time.Hour,
		"7d12h": 180 * time.Hour, "1.5d": 36 * time.Hour, "1h30m": 90 * time.Minute, "0d": 0,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "d", "-1s", "-1d", "1d-2h", "7 d", "1e9d", "NaNd", "12hd", "1w"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q is accepted as %v", text, got)
		}
	}
}

func TestRetentionIsShownInDays(t *testing.T) {
	for text, want := range map[string]string{"14d": "14d", "336h": "14d", "none": "none", "90m": "1h30m0s", "1d12h": "1d12h0m0s"} {
		var r Retention
		if err := r.UnmarshalText([]byte(text)); err != nil || r.String() != want {
			t.Errorf("%s is shown as %s, %v", text, r, err)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{
		"1": 1, "8MiB": 8 << 20, "8mib": 8 << 20, "500KB": 500_000, "1.5GiB": 3 << 29, "2 GB": 2_000_000_000, "7B": 7,
	} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "MiB", "8M", "8 parsecs", "1e300TB", "NaN", "0x10", "Inf"} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is accepted as %d", text, got)
		}
	}
}

func TestEditDistanceIsAMetric(t *testing.T) {
	for _, x := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 1}} {
		if got := editDistance(x.a, x.b); got != x.want {
			t.Errorf("%q to %q: got %d, want %d", x.a, x.b, got, x.want)
		}
	}
	word := rapid.StringMatching(`[A-C_]{0,8}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := editDistance(a, b)
		if d != editDistance(b, a) || (d == 0) != (a == b) || d > max(len(a), len(b)) {
			t.Fatalf("%q to %q is %d", a, b, d)
		}
	})
}
