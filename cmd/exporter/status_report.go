package main

import (
	"fmt"
	"strings"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
)

// consumerReport is what status says of a consumer; its JSON form is an
// interface for scripts.
type consumerReport struct {
	Consumer       string       `json:"consumer"`
	UID            string       `json:"uid"`
	Kind           string       `json:"kind"`
	State          string       `json:"state"` // running, paused, unowned or, for a backfill, finished
	Owner          string       `json:"owner,omitempty"`
	LeaseUntil     *time.Time   `json:"lease_until,omitempty"`
	Position       string       `json:"position"`
	High           int64        `json:"high"`
	OpenIDs        int64        `json:"open_ids"`
	OpenRanges     int          `json:"open_ranges"`
	Holders        []holder     `json:"holders,omitempty"`
	Batch          int64        `json:"batch"`
	InFlight       int          `json:"events_in_flight"`
	Attempt        int          `json:"attempt"`
	EventsAccepted int64        `json:"events_accepted"`
	CaughtUpAt     *time.Time   `json:"caught_up_at,omitempty"`
	AcceptedAt     *time.Time   `json:"accepted_at,omitempty"`
	LastError      string       `json:"last_error,omitempty"`
	LastErrorAt    *time.Time   `json:"last_error_at,omitempty"`
	Paused         *pauseReport `json:"paused,omitempty"`
	DeadLetters    int64        `json:"dead_letters"`
	Losses         int64        `json:"losses"`
	LagEvents      *int64       `json:"lag_events,omitempty"`  // undelivered; absent when unknown
	LagExact       *bool        `json:"lag_exact,omitempty"`   // false when lag_events is an upper bound
	LagSeconds     *float64     `json:"lag_seconds,omitempty"` // age of the oldest of them
	Epoch          int64        `json:"epoch"`
	Next           string       `json:"next,omitempty"` // what to run or look at

	now    time.Time // on the database's clock
	schema string    // of the exporter's tables
}

type holder = exporter.Holder

type pauseReport struct {
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
	Detail string    `json:"detail"`
}

func reportsOf(list []cursor.Status, db DatabaseConfig) []consumerReport {
	reports := make([]consumerReport, len(list))
	for i := range list {
		reports[i] = reportOf(&list[i], db)
	}
	return reports
}

func reportOf(s *cursor.Status, db DatabaseConfig) consumerReport {
	r := consumerReport{
		Consumer: s.Name, UID: s.UID, Kind: s.Kind, State: s.State(),
		Owner: s.Owner, LeaseUntil: s.LeaseUntil,
		Position: s.Position.String(), High: s.Position.High,
		OpenIDs: s.Position.Holes.Count(), OpenRanges: len(s.Position.Holes),
		Batch: s.Batch, EventsAccepted: s.EventsAccepted,
		CaughtUpAt: s.CaughtUpAt, AcceptedAt: s.AcceptedAt,
		LastError: s.LastError, LastErrorAt: s.LastErrorAt,
		DeadLetters: s.DeadLetters, Losses: s.Losses,
		Epoch: s.Epoch, now: s.Now, schema: db.ExportSchema,
	}
	if len(s.Position.Holes) > 0 {
		r.Holders = s.Holders
	}
	if s.Intent != nil {
		r.InFlight, r.Attempt = s.Intent.Events, s.Intent.Attempt
	}
	if p := s.Paused; p != nil {
		r.Paused = &pauseReport{p.By, p.At, p.Reason, p.Detail}
	}
	r.Next = r.next()
	return r
}

func (r *consumerReport) needsPerson() bool { return r.Paused != nil || r.Losses > 0 }

// words is the state as a sentence fragment.
func (r *consumerReport) words() string {
	switch r.State {
	case cursor.Paused:
		return "paused, " + r.Paused.Reason
	case cursor.Running:
		return "running on " + r.Owner
	default:
		return r.State
	}
}

// endHolder is the statement that ends a transaction.
func endHolder(h holder) string {
	switch {
	case h.Prepared != "":
		return "ROLLBACK PREPARED '" + strings.ReplaceAll(h.Prepared, "'", "''") + "';"
	case h.PID != 0:
		return fmt.Sprintf("SELECT pg_terminate_backend(%d);", h.PID)
	default:
		return "SELECT gid FROM pg_prepared_xacts; then ROLLBACK PREPARED"
	}
}

// next says what a person can do about the state, "" when nothing is needed.
func (r *consumerReport) next() string {
	switch {
	case r.Paused != nil && r.Paused.Reason == exporter.PausedByPerson:
		return fmt.Sprintf("exporter consumer resume %s --reason TEXT", r.Consumer)
	case r.Paused != nil && r.Paused.Reason == exporter.PausedPossibleLoss:
		return fmt.Sprintf("exporter cursor losses %s, then exporter cursor accept-loss %s --all --reviewed-by WHO --reason TEXT", r.Consumer, r.Consumer)
	case r.Paused != nil && r.Paused.Reason == exporter.PausedSourceChanged:
		return "exporter source show, then exporter source adopt --reason TEXT"
	case r.Paused != nil:
		return fmt.Sprintf("put right what the reason says, then: exporter consumer resume %s --reason TEXT", r.Consumer)
	case r.Losses > 0:
		return fmt.Sprintf("events may be lost: exporter cursor losses %s", r.Consumer)
	case r.State == cursor.Finished:
		return ""
	case r.Kind == cursor.Backfill && (r.Paused != nil || r.State == cursor.Unowned):
		return "exporter backfill show " + r.Consumer
	case r.State == cursor.Unowned:
		return "start `exporter run` with " + r.Consumer + " in EXPORTER_CONSUMERS; if one runs, see its log"
	case r.LastError != "":
		return "exporter check shows whether the sink can be reached; the batch is tried again until it is accepted"
	case r.OpenIDs > 0 && len(r.Holders) > 0:
		return "nothing waits for the open ids; if what holds them is stuck, in Docket's database: " + endHolder(r.Holders[0])
	default:
		return ""
	}
}
