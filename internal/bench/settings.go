package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settings are what the environment says about a bench.
type settings struct {
	Events      int           // BENCH_EVENTS: rows for rate and processor time
	LargeEvents int           // BENCH_LARGE_EVENTS: rows with a payload of 1 MB
	ClickHouse  int           // BENCH_CLICKHOUSE_EVENTS: rows for ClickHouse
	PubSub      int           // BENCH_PUBSUB_EVENTS: rows for Pub/Sub
	Flat        []int         // BENCH_FLAT: sizes of the table, ascending, separated by commas
	Repeat      int           // BENCH_REPEAT: turns of each loop
	Duration    time.Duration // BENCH_SECONDS: how long the latency is measured
	Rate        int           // BENCH_RATE: events a second then
	Only        []string      // BENCH_ONLY: parts, separated by commas; empty is all
	Profile     string        // BENCH_PROFILE: directory for profiles; empty is none
	Exporter    string        // BENCH_EXPORTER: the binary; default the one beside this one
}

var parts = []string{"rate", "rss", "memory", "latency", "isolation", "idle", "clickhouse", "pubsub", "reconcile", "backfill", "flat", "profile"}

func readSettings(getenv func(string) string) (settings, error) {
	s := settings{Profile: getenv("BENCH_PROFILE"), Exporter: getenv("BENCH_EXPORTER")}
	var seconds int
	var errs []error
	for _, n := range []struct {
		name     string
		into     *int
		fallback int
		least    int
	}{
		{"BENCH_EVENTS", &s.Events, 1_000_000, 1000},
		{"BENCH_LARGE_EVENTS", &s.LargeEvents, 2000, 10},
		{"BENCH_CLICKHOUSE_EVENTS", &s.ClickHouse, 300_000, 1000},
		{"BENCH_PUBSUB_EVENTS", &s.PubSub, 100_000, 1000},
		{"BENCH_REPEAT", &s.Repeat, 3, 1},
		{"BENCH_SECONDS", &seconds, 20, 2},
		{"BENCH_RATE", &s.Rate, 1000, 1},
	} {
		*n.into = n.fallback
		text := getenv(n.name)
		if text == "" {
			continue
		}
		value, err := strconv.Atoi(strings.ReplaceAll(text, "_", ""))
		if err != nil || value < n.least {
			errs = append(errs, fmt.Errorf("%s is %q: want a whole number of at least %d", n.name, text, n.least))
			continue
		}
		*n.into = value
	}
	var err error
	if s.Flat, err = readSizes(getenv("BENCH_FLAT")); err != nil {
		errs = append(errs, err)
	}
	s.Duration = time.Duration(seconds) * time.Second
	for _, part := range strings.FieldsFunc(getenv("BENCH_ONLY"), func(r rune) bool { return r == ',' || r == ' ' }) {
		if !slices.Contains(parts, part) {
			errs = append(errs, fmt.Errorf("BENCH_ONLY names %q: the parts are %s", part, strings.Join(parts, ", ")))
		}
		s.Only = append(s.Only, part)
	}
	if slices.Contains(s.Only, "profile") && s.Profile == "" {
		errs = append(errs, errors.New("BENCH_ONLY names profile: set BENCH_PROFILE to the directory for it"))
	}
	if s.Exporter == "" {
		self, err := os.Executable()
		if err != nil {
			return s, fmt.Errorf("find the exporter: %w", err)
		}
		s.Exporter = filepath.Join(filepath.Dir(self), "exporter")
	}
	if _, err := os.Stat(s.Exporter); err != nil {
		errs = append(errs, fmt.Errorf("find the exporter: %w; run `make build` or set BENCH_EXPORTER", err))
	}
	return s, errors.Join(errs...)
}

// readSizes reads the sizes of the table for the part flat.
func readSizes(text string) (sizes []int, err error) {
	if text == "" {
		text = "1_000_000,5_000_000"
	}
	least := flatEvents
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.ReplaceAll(strings.TrimSpace(word), "_", ""))
		if err != nil || n < least {
			return nil, fmt.Errorf("BENCH_FLAT is %q: want ascending numbers of rows such as 1000000,5000000, the first at least %d", text, flatEvents)
		}
		sizes, least = append(sizes, n), n+3 // a run has at least 3 events
	}
	return sizes, nil
}

// wants reports whether a part is to run. Profiles are made where there is a
// directory for them; flat and backfill run only when they are named: their
// rows take minutes to load.
func (s settings) wants(part string) bool {
	if part == "profile" && s.Profile == "" {
		return false
	}
	if (part == "flat" || part == "backfill") && len(s.Only) == 0 {
		return false
	}
	return len(s.Only) == 0 || slices.Contains(s.Only, part)
}
