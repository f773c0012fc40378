package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/sources/docket"
)

// placeHelp explains how a place in the events is written.
const placeHelp = `A place in the events is one of

  earliest                below everything that exists
  latest                  behind everything that is visible now
  120345                  a position, also 120345-{[120300,120302]}: what
                          cursor show NAME --json has as position
  id:120345               just below that id, whose event is the first
  time:2026-11-29T10:00Z  just below the lowest id that was inserted at or after
                          it; in UTC where it names no zone
  run:RUN_ID              just below the run's first event
  run:RUN_ID/SEQ          just below that event of the run

Docket takes inserted_at from the database's clock for the events of a step and
from the application's clock for a run's start, a cancellation and a resolved
interrupt; it follows neither ids nor commits. No event at or after the time is
left out, and some that are older may come with it.`

// docketTimeout bounds what a command waits for Docket's database.
const docketTimeout = 5 * time.Minute

// withDocket runs do with Docket's database.
func (p *process) withDocket(ctx context.Context, db DatabaseConfig, do func(context.Context, *pgxpool.Pool) error) error {
	ctx, cancel := context.WithTimeout(ctx, docketTimeout)
	defer cancel()
	pool, err := openPool(ctx, db.Docket, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.Ping(ctx); err != nil {
		return explainConnect(db.Docket, err)
	}
	return do(ctx, pool)
}

// parsePlace makes a mistake in an argument one of usage.
func parsePlace(text string) (docket.Place, error) {
	place, err := docket.ParsePlace(text)
	if err != nil && strings.Contains(text, shortenedIDs) {
		err = withHint(fmt.Errorf("%q is a position that was shortened for people", text), "`exporter cursor show NAME|PLACE --json` has it whole")
	}
	if err != nil {
		return place, usage(err)
	}
	return place, nil
}

// findPlace returns the position of a place.
func findPlace(ctx context.Context, pool *pgxpool.Pool, db DatabaseConfig, place docket.Place) (exporter.Position, error) {
	at, err := docket.StartPosition(ctx, pool, db.DocketSchema, place)
	if errors.Is(err, docket.ErrStart) {
		err = usage(err)
	}
	return at, err
}

// sayFuture says what a time means that is still to come.
func (p *process) sayFuture(place docket.Place) {
	if at, ok := place.Time(); ok && at.After(time.Now()) {
		fmt.Fprintf(p.stderr, "%s is still to come: it is like latest\n", place)
	}
}

// placeReport is what `cursor show` says of a place in the events.
type placeReport struct {
	Place    string       `json:"place"`
	Position string       `json:"position"`
	OpenIDs  int64        `json:"open_ids"`
	Done     *eventReport `json:"last_done,omitempty"` // the event of the highest id that is done
	Next     *eventReport `json:"next,omitempty"`      // the event of the lowest id above the position
	Head     int64        `json:"head"`                // the highest id handed out
	Events   int64        `json:"events"`              // from there to now
	Exact    bool         `json:"events_exact"`        // false when events is an upper bound
	Oldest   *time.Time   `json:"oldest,omitempty"`    // when the oldest of them was inserted
}

type eventReport struct {
	EventID    int64     `json:"event_id"`
	RunID      string    `json:"run_id"`
	Seq        int64     `json:"seq"`
	InsertedAt time.Time `json:"inserted_at"`
}

func eventReportOf(n *docket.Neighbour) *eventReport {
	if n == nil {
		return nil
	}
	return &eventReport{n.EventID, n.RunID, n.Seq, n.InsertedAt.UTC()}
}

func (e *eventReport) String() string {
	if e == nil {
		return "none"
	}
	return fmt.Sprintf("%d, run %s/%d, inserted %s", e.EventID, oneLine(e.RunID), e.Seq, e.InsertedAt.Format(time.RFC3339))
}

// describePlace reads what lies around a position, and how much lies behind it.
func describePlace(ctx context.Context, pool *pgxpool.Pool, db DatabaseConfig, name string, at exporter.Position) (placeReport, error) {
	r := placeReport{Place: name, Position: at.String(), OpenIDs: at.Holes.Count()}
	done, next, err := docket.Neighbours(ctx, pool, db.DocketSchema, at)
	if err != nil {
		return r, err
	}
	r.Done, r.Next = eventReportOf(done), eventReportOf(next)
	b, err := docket.ReadBacklog(ctx, pool, db.DocketSchema, docket.Rest{After: at})
	if err != nil {
		return r, err
	}
	r.Head, r.Events, r.Exact = b.Head, b.Events, b.Exact
	if !b.Oldest.IsZero() {
		oldest := b.Oldest.UTC()
		r.Oldest = &oldest
	}
	return r, nil
}

// toNow says what comes from the place on.
func (r *placeReport) toNow() string {
	return fmt.Sprintf("from there to now: %s; the next by id: %s", r.events(), r.Next)
}

func (r *placeReport) events() string {
	if r.Exact {
		return plural(r.Events, "event")
	}
	return "at most " + plural(r.Events, "event")
}

func (r *placeReport) lines() [][2]string {
	toNow := r.events()
	if r.Oldest != nil {
		toNow += ", the oldest inserted " + stamp(r.Oldest)
	}
	return [][2]string{
		{"place", shortened(oneLine(r.Place))},
		{"position", shortened(r.Position)},
		{"open ids", fmt.Sprint(r.OpenIDs)},
		{"last done", r.Done.String()},
		{"next by id", r.Next.String()},
		{"to now", fmt.Sprintf("%s; the highest id is %d", toNow, r.Head)},
	}
}

func (p *process) showPlace(ctx context.Context, text string, asJSON bool) error {
	db, _, err := loadDatabase(p.env)
	if err != nil {
		return err
	}
	place, err := parsePlace(text)
	if err != nil {
		return err
	}
	return p.withDocket(ctx, db, func(ctx context.Context, pool *pgxpool.Pool) error {
		at, err := findPlace(ctx, pool, db, place)
		if err != nil {
			return err
		}
		p.sayFuture(place)
		r, err := describePlace(ctx, pool, db, text, at)
		if err != nil {
			return err
		}
		if asJSON {
			return writeJSON(p.stdout, r)
		}
		return printWhole(p.stdout, r.lines(), r.Position)
	})
}

// around adds what lies around a consumer's position; what cannot be read is
// left out, and the error says why.
func (p *process) around(ctx context.Context, store *cursor.Store, db DatabaseConfig, s *cursor.Status) (lines [][2]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lagTimeout)
	defer cancel()
	err = p.withDocket(ctx, db, func(ctx context.Context, pool *pgxpool.Pool) error {
		if err := sameSource(ctx, store, pool, db.DocketSchema); err != nil {
			return explainSource(err, db)
		}
		r, err := describePlace(ctx, pool, db, s.Name, s.Position)
		if err == nil {
			lines = r.lines()[3:]
		}
		return err
	})
	return lines, err
}

// printWhole prints lines, and where positions are whole that are shortened there.
func printWhole(w io.Writer, lines [][2]string, positions ...string) error {
	if err := printLines(w, lines); err != nil {
		return err
	}
	return sayWhole(w, positions...)
}

// sayWhole says where positions are whole, if one of them is shortened.
func sayWhole(w io.Writer, positions ...string) error {
	text := wholeElsewhere(positions...)
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

func printLines(w io.Writer, lines [][2]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range lines {
		fmt.Fprintf(t, "%s\t%s\n", line[0], line[1])
	}
	return t.Flush()
}
