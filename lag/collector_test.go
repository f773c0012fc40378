package lag_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/docket-exporter/exporter/lag"
)

// source is what a collector reads, as a test sets it.
type source struct {
	consumers []lag.Consumer
	err       error
	takes     time.Duration
	reads     int
}

func (s *source) read(ctx context.Context) ([]lag.Consumer, error) {
	s.reads++
	select {
	case <-time.After(s.takes):
		return s.consumers, s.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// scraper gathers the samples of a collector as "name{consumer}" → value.
type scraper struct {
	t        *testing.T
	registry *prometheus.Registry
}

func newScraper(t *testing.T, s *source, retention time.Duration, log *bytes.Buffer) *scraper {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	if log != nil {
		logger = slog.New(slog.NewTextHandler(log, nil))
	}
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(lag.NewCollector(lag.NewWatch(s.read, retention, logger))); err != nil {
		t.Fatal(err)
	}
	return &scraper{t, registry}
}

func (s *scraper) scrape() map[string]float64 {
	s.t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	samples := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "docket_exporter_")
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetName() != "consumer" && l.GetName() != "reason" {
					s.t.Errorf("%s has the label %s", name, l.GetName())
				}
				labels = append(labels, l.GetValue())
			}
			if labels != nil {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			samples[name] = m.GetGauge().GetValue()
		}
	}
	return samples
}

func (s *scraper) want(want map[string]float64) {
	s.t.Helper()
	got := s.scrape()
	delete(got, "lag_collected_timestamp_seconds")
	if !maps.Equal(got, want) {
		s.t.Errorf("samples %v\nwant %v", got, want)
	}
}

// What is known of a consumer has a sample, and nothing else has.
func TestSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		second, minute := time.Second, time.Minute
		s := &source{consumers: []lag.Consumer{
			{
				UID: "1", Name: "behind", HighID: 70, OpenHoles: 2, OldestHole: &minute, Owned: true, Epoch: 4,
				SinceProgress: &second, SincePoll: &second,
				DeadLettersOpen: 2, DeadLettersHeld: 3, DeadLetterOldest: &minute, LossesOpen: 1, LostEvents: 90,
				Backlog: &lag.Backlog{Now: now, Events: 3, Exact: true, Oldest: now.Add(-90 * time.Second)},
			},
			{UID: "2", Name: "done", HighID: 73, OldestHole: new(time.Duration), Owned: true, Backlog: &lag.Backlog{Now: now, Exact: true}},
			{UID: "3", Name: "far", HighID: 1, Paused: "sink", Unowned: minute, Backlog: &lag.Backlog{Now: now, Events: 500_000}},
			{UID: "4", Name: "unread", HighID: 9, OpenHoles: 1},
			{UID: "5", Name: "again", Backfill: true, Unowned: minute, LossesOpen: 1, LostEvents: 5, Backlog: &lag.Backlog{Now: now, Events: 3, Exact: true, Oldest: now.Add(-59 * time.Minute)}},
		}}
		want := map[string]float64{
			"lag_events{behind}": 3, "lag_exact{behind}": 1, "lag_seconds{behind}": 90, "headroom_seconds{behind}": 3510, "headroom_ratio{behind}": 0.975,
			"position_high_id{behind}": 70, "open_holes{behind}": 2, "oldest_hole_seconds{behind}": 60, "consumer_owned{behind}": 1, "consumer_epoch{behind}": 4,
			"since_progress_seconds{behind}": 1, "since_poll_seconds{behind}": 1,
			"dead_letters_open{behind}": 2, "dead_letters_held{behind}": 3, "dead_letter_oldest_seconds{behind}": 60, "losses_open{behind}": 1, "lost_events_open{behind}": 90,

			"lag_events{done}": 0, "lag_exact{done}": 1, "lag_seconds{done}": 0, "headroom_seconds{done}": 3600, "headroom_ratio{done}": 1,
			"position_high_id{done}": 73, "oldest_hole_seconds{done}": 0, "consumer_owned{done}": 1,

			"lag_events{again}": 3, "lag_exact{again}": 1, "lag_seconds{again}": 3540, // but no deadline, and nobody need own it

			"lag_events{far}": 500_000, "lag_exact{far}": 0, // its oldest event was not found
			"position_high_id{far}": 1, "consumer_paused{far}": 1, "consumer_paused_reason{far,sink}": 1, "unowned_seconds{far}": 60,

			"position_high_id{again}": 0, "position_high_id{unread}": 9, "open_holes{unread}": 1,
			"retention_seconds": 3600,
		}
		for _, c := range s.consumers { // what a consumer's row always tells
			for _, name := range []string{"open_holes", "consumer_owned", "consumer_epoch", "unowned_seconds", "consumer_paused", "dead_letters_open", "dead_letters_held", "losses_open", "lost_events_open"} {
				if key := name + "{" + c.Name + "}"; want[key] == 0 {
					want[key] = 0
				}
			}
		}
		for _, name := range []string{"unowned_seconds", "losses_open", "lost_events_open"} {
			delete(want, name+"{again}")
		}
		newScraper(t, s, time.Hour, nil).want(want)
	})
}

// Rates come with the second reading, and end with the backlog.
func TestForecastSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now()
		s := &source{}
		set := func(high, accepted, events int64, age time.Duration) {
			now := time.Now()
			s.consumers = []lag.Consumer{{UID: "1", Name: "c", HighID: high, EventsAccepted: accepted, Backlog: &lag.Backlog{Now: now, Head: high + events, Events: events, Exact: true, Oldest: now.Add(-age)}}}
		}
		scraper := newScraper(t, s, time.Hour, nil)
		set(0, 0, 1000, 10*time.Minute)
		if got := scraper.scrape(); has(got, "drain_events_per_second{c}") || has(got, "loss_eta_seconds{c}") || has(got, "catch_up_seconds{c}") {
			t.Errorf("rates after one reading: %v", got)
		}
		time.Sleep(10 * time.Second)
		set(200, 200, 900, 10*time.Minute)
		got := scraper.scrape()
		if got["drain_events_per_second{c}"] != 20 || got["arrival_events_per_second{c}"] != 10 || got["catch_up_seconds{c}"] != 90 || !math.IsInf(got["loss_eta_seconds{c}"], 1) {
			t.Errorf("after %v: %v", time.Since(at), got)
		}
		s.consumers = []lag.Consumer{{UID: "1", Name: "c"}}
		time.Sleep(10 * time.Second)
		if got := scraper.scrape(); has(got, "drain_events_per_second{c}") {
			t.Errorf("rates without a backlog: %v", got)
		}
		set(500, 500, 0, 0)
		s.consumers[0].UID = "2" // another consumer of the same name
		time.Sleep(10 * time.Second)
		if got := scraper.scrape(); has(got, "drain_events_per_second{c}") {
			t.Errorf("rates of a consumer that was removed: %v", got)
		}
	})
}

func has(samples map[string]float64, name string) bool {
	_, there := samples[name]
	return there
}

func TestNoHeadroomWithoutRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{consumers: []lag.Consumer{{Name: "c", Backlog: &lag.Backlog{Exact: true}}}}
		if got, there := newScraper(t, s, 0, nil).scrape()["headroom_seconds{c}"]; there {
			t.Errorf("headroom %v without a retention", got)
		}
	})
}

// A failed read leaves no sample but the time of the last good one.
func TestUnknownIsAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &source{err: errors.New("no route to host"), consumers: []lag.Consumer{{Name: "c", Backlog: &lag.Backlog{Exact: true}}}}
		scraper := newScraper(t, s, time.Hour, &log)
		if got := scraper.scrape(); len(got) != 1 || got["retention_seconds"] != 3600 {
			t.Errorf("samples %v before anything was read", got)
		}
		time.Sleep(time.Minute)
		s.err = nil
		good := scraper.scrape()
		if _, there := good["lag_seconds{c}"]; !there || good["lag_collected_timestamp_seconds"] != float64(time.Now().Unix()) {
			t.Errorf("samples %v after a good read at %v", good, time.Now())
		}
		s.err = errors.New("no route to host")
		for range 3 {
			time.Sleep(time.Minute)
			if got := scraper.scrape(); len(got) != 2 || got["lag_collected_timestamp_seconds"] != good["lag_collected_timestamp_seconds"] {
				t.Errorf("samples %v after a failed read", got)
			}
		}
		s.err = nil
		time.Sleep(time.Minute)
		scraper.scrape()
		for text, want := range map[string]int{"lag is unknown": 2, "no route to host": 2, "lag is known again": 2} {
			if got := strings.Count(log.String(), text); got != want {
				t.Errorf("%q logged %d times, want %d:\n%s", text, got, want, log.String())
			}
		}
	})
}

func TestReadEndsWithItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{takes: time.Hour}
		start := time.Now()
		if got := newScraper(t, s, 0, nil).scrape(); len(got) != 0 || time.Since(start) != 5*time.Second {
			t.Errorf("samples %v after %v", got, time.Since(start))
		}
	})
}

// Many scrapers cost the source as much as one.
func TestScrapesShareReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{takes: 200 * time.Millisecond, consumers: []lag.Consumer{{Name: "c"}}}
		scraper := newScraper(t, s, 0, nil)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { scraper.scrape() })
		}
		wg.Wait()
		for range 15 {
			time.Sleep(250 * time.Millisecond)
			scraper.scrape()
		}
		if s.reads != 1 {
			t.Errorf("%d reads within 4 s of one that took 200 ms, want 1", s.reads)
		}
		time.Sleep(time.Second)
		scraper.scrape()
		if s.reads != 2 {
			t.Errorf("%d reads after 4 s, want 2", s.reads)
		}
		s.takes = 0
		time.Sleep(time.Minute)
		scraper.scrape()
		time.Sleep(time.Second)
		scraper.scrape()
		if s.reads != 4 {
			t.Errorf("%d reads, want one a second when they take no time", s.reads)
		}
	})
}
