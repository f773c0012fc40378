package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/docket-exporter/exporter/cursor"
)

// backfillSpec is what a backfill was asked for. Its JSON form is stored with
// the backfill.
type backfillSpec struct {
	Consumer string   `json:"consumer"`
	From     string   `json:"from"`
	To       string   `json:"to,omitempty"` // empty for where the consumer was
	Runs     []string `json:"runs,omitempty"`
	Types    []string `json:"types,omitempty"`
	Tenants  []string `json:"tenants,omitempty"`
	Graphs   []string `json:"graphs,omitempty"`

	Rate       Rate    `json:"rate,omitempty"`          // events a second; 0 for no limit
	LiveLag    float64 `json:"max_live_lag_seconds"`    // 0 for whatever it is
	ReplicaLag float64 `json:"max_replica_lag_seconds"` // 0 for whatever it is
	Detached   bool    `json:"detached,omitempty"`      // `exporter run` works on it
	Below      int64   `json:"below"`                   // just below the first event there was at the start: progress counts from here
}

// same reports whether two backfills are asked for the same events: they may
// differ in how fast, and by whom.
func (s *backfillSpec) same(t *backfillSpec) bool { return s.key() == t.key() }

// key stands for which events are asked for.
func (s *backfillSpec) key() string {
	which := backfillSpec{Consumer: s.Consumer, From: s.From, To: s.To, Runs: s.Runs, Types: s.Types, Tenants: s.Tenants, Graphs: s.Graphs}
	text, err := json.Marshal(which)
	if err != nil {
		panic(err) // texts and numbers only
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}

// defaultName follows from what is asked for, so that the same command finds
// what it has begun. The n-th backfill of the same events has a number.
func (s *backfillSpec) defaultName(n int) string {
	name := s.Consumer + "_backfill_" + s.key()
	if n > 1 {
		name += fmt.Sprintf("_%d", n)
	}
	return name
}

// madeName matches what defaultName makes.
var madeName = regexp.MustCompile(`_backfill_[0-9a-f]{8}(_\d+)?$`)

// String says which events are asked for, for people.
func (s *backfillSpec) String() string {
	to := s.To
	if to == "" {
		to = "where " + s.Consumer + " was"
	}
	text := fmt.Sprintf("from %s to %s", shortened(s.From), shortened(to))
	if only := s.only(); only != "" {
		text += ", " + only
	}
	return text
}

// only says what is selected; empty for everything.
func (s *backfillSpec) only() string {
	var parts []string
	for _, only := range []struct {
		what     string
		patterns []string
	}{{"runs", exactly(s.Runs)}, {"types", s.Types}, {"tenants", s.Tenants}, {"graphs", s.Graphs}} {
		if len(only.patterns) > 0 {
			parts = append(parts, only.what+" "+strings.Join(only.patterns, ","))
		}
	}
	return strings.Join(parts, ", ")
}

// exactly leaves out what marks a text that is no pattern.
func exactly(patterns []string) (texts []string) {
	for _, p := range patterns {
		texts = append(texts, strings.TrimPrefix(p, "="))
	}
	return texts
}

func specOf(b *cursor.BackfillStatus) (backfillSpec, error) {
	var s backfillSpec
	if err := json.Unmarshal(b.Spec, &s); err != nil {
		return s, fmt.Errorf("read what backfill %s was asked for: %w", b.Name, err)
	}
	return s, nil
}

const (
	mostBackfillEvents = 20_000 // of a page, whatever the consumer's limit
	pagesPerSecond     = 4      // at the least, with a rate
)

// configure returns the consumer that does the backfill: the one it is for, but
// under another name, with a narrower filter and pages that suit its rate.
func (s *backfillSpec) configure(of ConsumerConfig, name string) (ConsumerConfig, error) {
	c := of
	c.Name, c.Of, c.Linger, c.Runs = name, of.Name, 0, s.Runs
	c.MaxAge = 0            // a person asks for what is old
	c.OnLoss = LossContinue // the pruner is close behind a backfill from earliest
	for _, x := range []struct {
		flag     string
		into     *Patterns
		narrower []string
	}{{"--types", &c.Types, s.Types}, {"--tenants", &c.Tenants, s.Tenants}, {"--graphs", &c.Graphs, s.Graphs}} {
		both, ok := narrow(*x.into, x.narrower)
		if !ok {
			return c, usage(fmt.Errorf("%s %s selects nothing that %s exports, which is %s: a backfill sends no event that its consumer leaves out",
				x.flag, strings.Join(x.narrower, ","), of.Name, strings.Join(*x.into, ",")))
		}
		*x.into = both
	}
	c.BatchEvents = min(c.BatchEvents, mostBackfillEvents)
	if s.Rate > 0 {
		c.BatchEvents = min(c.BatchEvents, max(1, Count(s.Rate/pagesPerSecond)))
	}
	return c, nil
}

// narrow returns the patterns that select what both lists select; false when
// that is nothing. An empty list selects everything.
func narrow(wide, narrower Patterns) (both Patterns, ok bool) {
	in, out := split(wide)
	alsoIn, alsoOut := split(narrower)
	switch {
	case len(in) == 0:
		both = slices.Clone(alsoIn)
	case len(alsoIn) == 0:
		both = slices.Clone(in)
	default:
		for _, x := range in {
			for _, y := range alsoIn {
				if within(y, x) {
					both = append(both, y)
				} else if within(x, y) {
					both = append(both, x)
				}
			}
		}
		if len(both) == 0 {
			return nil, false
		}
	}
	both = append(append(both, out...), alsoOut...)
	slices.Sort(both)
	return slices.Compact(both), true
}

// split divides patterns into those that include and those that exclude.
func split(all Patterns) (in, out Patterns) {
	for _, p := range all {
		if strings.HasPrefix(p, "!") {
			out = append(out, p)
		} else {
			in = append(in, p)
		}
	}
	return in, out
}

// within reports whether everything that x selects is selected by y.
func within(x, y string) bool {
	prefix, open := strings.CutSuffix(y, "*")
	return x == y || open && strings.HasPrefix(strings.TrimSuffix(x, "*"), prefix)
}
