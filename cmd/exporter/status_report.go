package main

import (
	"math"
	"strconv"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/lag"
)

// statusReport is all that a process can tell: what `exporter status` prints,
// /status.json serves and the status page shows. Its JSON form is an interface
// for scripts. What is not known is absent, never 0.
type statusReport struct {
	At        time.Time        `json:"at,omitzero"` // when the databases were last read, on this process's clock
	Process   processReport    `json:"process"`
	Unknown   *unknownReport   `json:"unknown,omitempty"`  // why nothing is known of the consumers
	Findings  []finding        `json:"findings,omitempty"` // what is wrong with the databases although they answer
	Source    *sourceBound     `json:"source,omitempty"`
	Retention retentionReport  `json:"retention"`
	Guard     *guardStatus     `json:"guard,omitempty"`          // only of a process that runs consumers
	HeldBy    []string         `json:"pruner_held_by,omitempty"` // the application names of sessions that keep Docket's pruner from working
	Consumers []consumerReport `json:"consumers"`
	Backfills []consumerReport `json:"backfills"` // that have not finished
}

// processReport is the process that tells.
type processReport struct {
	Command   string    `json:"command"` // run, monitor or status
	Version   string    `json:"version"`
	Replica   string    `json:"replica,omitempty"` // its name as an owner
	StartedAt time.Time `json:"started_at"`
	Waiting   string    `json:"waiting,omitempty"` // why run does not run its consumers yet
}

// unknownReport says why something is unknown.
type unknownReport struct {
	Error string     `json:"error"`
	Since *time.Time `json:"since,omitempty"` // when it was last known; absent when this process never knew

	err error
}

// sourceBound is the Docket that the exporter's tables belong to.
type sourceBound struct {
	DocketSchema string    `json:"docket_schema"`
	System       int64     `json:"system_identifier,string"`
	BoundAt      time.Time `json:"bound_at"`
}

// retentionReport is what was told about Docket's pruner, and what its table
// says to that.
type retentionReport struct {
	Told     *float64 `json:"told_seconds,omitempty"` // absent for none, and where it is not set
	None     bool     `json:"none,omitempty"`         // told that no pruner runs
	Observed *float64 `json:"observed_seconds,omitempty"`
	Mismatch string   `json:"mismatch,omitempty"` // a word for how they contradict each other
	Text     string   `json:"text,omitempty"`
	Hint     string   `json:"hint,omitempty"`
}

// consumerReport is what is told of a consumer.
type consumerReport struct {
	Consumer  string    `json:"consumer"`
	UID       string    `json:"uid"`
	Kind      string    `json:"kind"`
	State     string    `json:"state"`     // running, paused, unowned or, for a backfill, finished or cancelled
	Condition condition `json:"condition"` // how it fares, in one word
	Words     string    `json:"words"`     // the same as a sentence

	Owner      string     `json:"owner,omitempty"`
	Epoch      int64      `json:"epoch"`
	LeaseUntil *time.Time `json:"lease_until,omitempty"`
	Unowned    *float64   `json:"unowned_seconds,omitempty"` // absent while it is owned

	Position     string     `json:"position"`
	High         int64      `json:"high"`
	Head         *int64     `json:"head,omitempty"` // the highest id that Docket has handed out
	OpenIDs      int64      `json:"open_ids"`
	OpenRanges   int        `json:"open_ranges"`
	OldestHoleAt *time.Time `json:"oldest_hole_at,omitempty"`
	Holders      []holder   `json:"holders,omitempty"`

	LagEvents  *int64     `json:"lag_events,omitempty"`  // undelivered
	LagExact   *bool      `json:"lag_exact,omitempty"`   // false when lag_events is an upper bound
	LagSeconds *float64   `json:"lag_seconds,omitempty"` // age of the oldest of them
	Headroom   *float64   `json:"headroom_seconds,omitempty"`
	Ratio      *float64   `json:"headroom_ratio,omitempty"`
	HorizonAt  *time.Time `json:"horizon_at,omitempty"` // what was inserted before may be deleted
	Arrival    *float64   `json:"arrival_events_per_second,omitempty"`
	Drain      *float64   `json:"drain_events_per_second,omitempty"`
	CatchUp    *span      `json:"catch_up_seconds,omitempty"`
	LossETA    *span      `json:"loss_eta_seconds,omitempty"`

	LagUnknown *unknownReport `json:"lag_unknown,omitempty"` // why the figures above are absent

	Batch          int64      `json:"batch"`
	InFlight       int        `json:"events_in_flight"`
	Attempt        int        `json:"attempt"`
	EventsAccepted int64      `json:"events_accepted"`
	CaughtUpAt     *time.Time `json:"caught_up_at,omitempty"`
	AcceptedAt     *time.Time `json:"accepted_at,omitempty"`
	PolledAt       *time.Time `json:"polled_at,omitempty"`
	ProgressAt     *time.Time `json:"progress_at,omitempty"` // the later of the former two

	LastError   string       `json:"last_error,omitempty"`
	LastErrorAt *time.Time   `json:"last_error_at,omitempty"`
	Waiting     string       `json:"waiting_for,omitempty"` // a backfill, out of consideration
	Paused      *pauseReport `json:"paused,omitempty"`

	DeadLetters      int64        `json:"dead_letters"` // undecided
	DeadLettersHeld  int64        `json:"dead_letters_held"`
	DeadLetterOldest *time.Time   `json:"dead_letter_oldest_at,omitempty"`
	Losses           int64        `json:"losses"`
	LostEvents       int64        `json:"lost_events"` // the most that the losses stand for
	OpenLosses       []lossReport `json:"open_losses,omitempty"`

	Done     *float64 `json:"done_ratio,omitempty"` // of a backfill: the share of its ids that is done
	Detached *bool    `json:"detached,omitempty"`   // of a backfill: left to a running exporter

	Next []advice `json:"next,omitempty"` // what to run or look at

	now    time.Time // on the clock of the exporter's database
	schema string    // of the exporter's tables
}

type holder = exporter.Holder

type pauseReport struct {
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
	Detail string    `json:"detail"`
}

// span is a number of seconds that may be infinite, which JSON writes as "never".
type span float64

// MarshalJSON implements json.Marshaler.
func (s span) MarshalJSON() ([]byte, error) {
	if s.never() {
		return []byte(`"never"`), nil
	}
	return strconv.AppendFloat(nil, float64(s), 'f', -1, 64), nil
}

func (s span) never() bool { return math.IsInf(float64(s), 1) }

func reportsOf(list []cursor.Status, db DatabaseConfig) []consumerReport {
	reports := make([]consumerReport, len(list))
	for i := range list {
		reports[i] = reportOf(&list[i], db)
	}
	return reports
}

// reportOf is what the exporter's own tables tell of a consumer.
func reportOf(s *cursor.Status, db DatabaseConfig) consumerReport {
	r := consumerReport{
		Consumer: s.Name, UID: s.UID, Kind: s.Kind, State: s.State(),
		Owner: s.Owner, LeaseUntil: s.LeaseUntil,
		Position: s.Position.String(), High: s.Position.High,
		OpenIDs: s.Position.Holes.Count(), OpenRanges: len(s.Position.Holes),
		Batch: s.Batch, EventsAccepted: s.EventsAccepted,
		CaughtUpAt: s.CaughtUpAt, AcceptedAt: s.AcceptedAt, PolledAt: s.PolledAt,
		LastError: s.LastError, LastErrorAt: s.LastErrorAt, Waiting: s.Waiting,
		DeadLetters: s.DeadLetters, DeadLettersHeld: s.DeadLettersHeld, DeadLetterOldest: s.DeadLetterOldest, Losses: s.Losses,
		Epoch: s.Epoch, now: s.Now, schema: db.ExportSchema,
	}
	for _, at := range []*time.Time{s.AcceptedAt, s.CaughtUpAt} {
		if at != nil && (r.ProgressAt == nil || at.After(*r.ProgressAt)) {
			r.ProgressAt = at
		}
	}
	if s.LeaseLive && len(s.Position.Holes) > 0 { // else nobody looks whether they still are
		r.OldestHoleAt, r.Holders = s.OldestHoleAt, s.Holders
	}
	if s.Intent != nil {
		r.InFlight, r.Attempt = s.Intent.Events, s.Intent.Attempt
	}
	if p := s.Paused; p != nil {
		r.Paused = &pauseReport{p.By, p.At, p.Reason, p.Detail}
	}
	r.judge()
	return r
}

// judge says how the consumer fares, from all that is known by now.
func (r *consumerReport) judge() {
	r.Condition = r.condition()
	r.Words = r.sentence()
	r.Next = r.next()
}

// setLag adds what both databases together tell.
func (r *consumerReport) setLag(c *lag.Consumer, kept time.Duration) {
	if !c.Owned {
		r.Unowned = seconds(c.Unowned)
	}
	r.LostEvents = c.LostEvents
	b := c.Backlog
	if b == nil {
		return
	}
	r.Head, r.LagEvents, r.LagExact = &b.Head, &b.Events, &b.Exact
	if age, known := b.Age(); known {
		r.LagSeconds = seconds(age)
	}
	if left, known := c.Headroom(kept); known {
		r.Headroom = seconds(left)
		ratio := left.Seconds() / kept.Seconds()
		r.Ratio = &ratio
	}
	if kept > 0 {
		horizon := b.Now.Add(-kept)
		r.HorizonAt = &horizon
	}
	if f := c.Forecast; f != nil {
		r.Arrival, r.Drain, r.CatchUp, r.LossETA = f.Arrival, &f.Drain, (*span)(f.CatchUp), (*span)(f.LossETA)
	}
}

func seconds(d time.Duration) *float64 {
	s := d.Seconds()
	return &s
}

func (r *consumerReport) needsPerson() bool { return r.Paused != nil || r.Losses > 0 }
