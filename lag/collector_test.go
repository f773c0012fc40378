package lag_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
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
	if err := registry.Register(lag.NewCollector(s.read, retention, logger)); err != nil {
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
			for _, l := range m.GetLabel() {
				if l.GetName() != "consumer" {
					s.t.Errorf("%s has the label %s", name, l.GetName())
				}
				name += "{" + l.GetValue() + "}"
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

func TestSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		s := &source{consumers: []lag.Consumer{
			{Name: "behind", HighID: 70, OpenHoles: 2, Owned: true, Backlog: &lag.Backlog{Now: now, Events: 3, Exact: true, Oldest: now.Add(-90 * time.Second)}},
			{Name: "done", HighID: 73, Owned: true, Backlog: &lag.Backlog{Now: now, Exact: true}},
			{Name: "far", HighID: 1, Paused: true, Backlog: &lag.Backlog{Now: now, Events: 500_000}},
			{Name: "unread", HighID: 9},
		}}
		newScraper(t, s, time.Hour, nil).want(map[string]float64{
			"lag_events{behind}": 3, "lag_exact{behind}": 1, "lag_seconds{behind}": 90, "headroom_seconds{behind}": 3510,
			"position_high_id{behind}": 70, "open_holes{behind}": 2, "consumer_owned{behind}": 1, "consumer_paused{behind}": 0,

			"lag_events{done}": 0, "lag_exact{done}": 1, "lag_seconds{done}": 0, "headroom_seconds{done}": 3600,
			"position_high_id{done}": 73, "open_holes{done}": 0, "consumer_owned{done}": 1, "consumer_paused{done}": 0,

			"lag_events{far}": 500_000, "lag_exact{far}": 0,
			"position_high_id{far}": 1, "open_holes{far}": 0, "consumer_owned{far}": 0, "consumer_paused{far}": 1,

			"position_high_id{unread}": 9, "open_holes{unread}": 0, "consumer_owned{unread}": 0, "consumer_paused{unread}": 0,
		})
	})
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
		if got := scraper.scrape(); len(got) != 0 {
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
			if got := scraper.scrape(); len(got) != 1 || got["lag_collected_timestamp_seconds"] != good["lag_collected_timestamp_seconds"] {
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
