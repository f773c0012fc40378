package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/sources/docket"
)

const (
	claimTime     = 2 * time.Minute            // after which another replay may take the letters of one that died
	sendTime      = claimTime - 15*time.Second // of a request, which ends before the claims do
	replayEvents  = 100
	replayBytes   = 4 << 20
	recordTries   = 5
	recordTimeout = 10 * time.Second
)

// replayer sends the letters of one consumer.
type replayer struct {
	store    *cursor.Store
	consumer ConsumerConfig
	sink     exporter.Sink
	render   docket.Renderer
	by       string // the claims' name
	reviewed cursor.Reviewed
	answers  *letterAnswers
	log      *slog.Logger

	claimed map[exporter.Identity]cursor.DeadLetter // the present chunk
	taken   []int64                                 // of it, by the sink
	stopped string                                  // why nothing more is tried
}

// run sends letters, which are in order, and what is held behind them, until
// nothing is left that may go.
func (r *replayer) run(ctx context.Context, queue []cursor.DeadLetter) error {
	seen := map[int64]bool{}
	for _, d := range queue {
		seen[d.ID] = true
	}
	for len(queue) > 0 {
		n := chunk(queue)
		if r.stopped == "" && ctx.Err() != nil {
			r.stopped = "interrupted"
		}
		if r.stopped != "" {
			for i := range queue {
				r.answers.add(&queue[i], answerFailed, "not tried: "+r.stopped)
			}
			return nil
		}
		if err := r.try(ctx, queue[:n]); err != nil {
			return err
		}
		queue = queue[n:]
		behind, err := r.heldBehind(ctx, seen)
		if err != nil {
			return err
		}
		queue = append(slices.Clip(queue), behind...)
	}
	return nil
}

// chunk is how many letters go in one request.
func chunk(queue []cursor.DeadLetter) int {
	bytes := int64(0)
	for i := range queue {
		if bytes += queue[i].Bytes; i > 0 && bytes > replayBytes || i == replayEvents || queue[i].ConsumerUID != queue[0].ConsumerUID {
			return i
		}
	}
	return len(queue)
}

// heldBehind returns what follows the letters that were just accepted.
func (r *replayer) heldBehind(ctx context.Context, seen map[int64]bool) ([]cursor.DeadLetter, error) {
	ids := r.taken
	if r.taken = nil; len(ids) == 0 || ctx.Err() != nil {
		return nil, nil
	}
	held, err := r.store.HeldBehind(ctx, ids)
	if err != nil {
		return nil, err
	}
	held = slices.DeleteFunc(held, func(id int64) bool { return seen[id] })
	if len(held) == 0 {
		return nil, nil
	}
	for _, id := range held {
		seen[id] = true
	}
	return r.store.DeadLetters(ctx, cursor.Letters{IDs: held})
}

// try claims letters and sends those that it gets.
func (r *replayer) try(ctx context.Context, want []cursor.DeadLetter) error {
	got, err := r.store.ClaimLetters(ctx, idsOf(want), r.by, claimTime)
	if err != nil {
		return err
	}
	if err := r.explainMissing(ctx, want, got); err != nil {
		return err
	}
	r.claimed = map[exporter.Identity]cursor.DeadLetter{}
	events := make([]exporter.Event, len(got))
	for i := range got {
		events[i] = got[i].Event
		r.claimed[events[i].Identity()] = got[i]
	}
	var ready []exporter.Event
	for len(events) > 0 {
		e := events[0]
		events = events[1:]
		if why := r.prepare(&e); why != "" {
			events = r.refused(e, why, events)
			continue
		}
		ready = append(ready, e)
	}
	r.send(ctx, ready)
	return nil
}

// prepare makes the event of a letter as the consumer's source would.
func (r *replayer) prepare(e *exporter.Event) (why string) {
	if err := r.render.Render(e); err != nil {
		return "undecodable: " + err.Error()
	}
	if e.Identity().Key() != r.claimed[e.Identity()].Key {
		return "its run id is not valid UTF-8 and could not be stored as it is: the event would get another identity"
	}
	return ""
}

// explainMissing says why letters could not be claimed.
func (r *replayer) explainMissing(ctx context.Context, want, got []cursor.DeadLetter) error {
	have := idsOf(got)
	var missing []int64
	for _, id := range idsOf(want) {
		if !slices.Contains(have, id) {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	now, err := r.store.DeadLetters(ctx, cursor.Letters{IDs: missing})
	if err != nil {
		return err
	}
	for i := range now {
		switch d := &now[i]; {
		case !d.Undecided():
			r.answers.add(d, answerRefused, "it is "+d.State+" already")
		case d.ClaimedBy != "" && d.ClaimedBy != r.by:
			r.answers.add(d, answerRefused, "another replay has it until "+stamp(d.ClaimedUntil))
		default:
			r.answers.add(d, answerWaits, "an earlier event of its run must be replayed or discarded first")
		}
	}
	return nil
}

// send offers claimed letters until each has an answer.
func (r *replayer) send(ctx context.Context, events []exporter.Event) {
	resend := resender{sink: r.sink, owner: r, what: "dead letters", limit: sendTime, log: r.log}
	tried, later, err := resend.send(ctx, events)
	if err == nil {
		return
	}
	result := answerFailed
	r.stopped = err.Error()
	if pause, ok := errors.AsType[*exporter.PauseError](err); ctx.Err() != nil {
		r.stopped = "interrupted"
	} else if ok {
		result, r.stopped = answerPerson, pause.Detail
	}
	for _, d := range r.lettersOf(tried) {
		r.failed(&d, r.stopped)
		r.answers.add(&d, result, r.stopped)
	}
	r.unclaim(later)
	for _, d := range r.lettersOf(later) {
		r.answers.add(&d, answerFailed, "not tried: "+r.stopped)
	}
}

// lettersOf returns the letters of some events of the present chunk.
func (r *replayer) lettersOf(events []exporter.Event) []cursor.DeadLetter {
	letters := make([]cursor.DeadLetter, len(events))
	for i := range events {
		letters[i] = r.claimed[events[i].Identity()]
	}
	return letters
}

// request implements resending. Its token is none of the live batches', and the
// same letters have the same one.
func (r *replayer) request(events []exporter.Event, attempt int) exporter.Batch {
	letters := r.lettersOf(events)
	b := exporter.Batch{
		Consumer: r.consumer.Name, UID: letters[0].ConsumerUID + " dead letters", Shape: r.consumer.shape(),
		Attempt: attempt, Rows: len(events), Events: events,
	}
	for i := range letters {
		b.Bytes += letters[i].Bytes
	}
	return b
}

// refused implements resending: it records that a letter stays.
func (r *replayer) refused(e exporter.Event, why string, later []exporter.Event) []exporter.Event {
	d := r.claimed[e.Identity()]
	r.failed(&d, why)
	r.answers.add(&d, answerRejected, why)
	return r.behind(&d, later)
}

// behind takes out what has to wait for a letter that stays.
func (r *replayer) behind(d *cursor.DeadLetter, later []exporter.Event) []exporter.Event {
	otherRun := func(e exporter.Event) bool { return e.RunID != d.Event.RunID }
	wait := slices.DeleteFunc(slices.Clone(later), otherRun)
	if len(wait) == 0 {
		return later
	}
	held, err := r.store.HeldBehind(context.Background(), []int64{d.ID})
	if err == nil && len(held) == 0 {
		return later // nothing of the run is held: it goes on without its dead ones
	}
	r.unclaim(wait)
	for _, l := range r.lettersOf(wait) {
		r.answers.add(&l, answerWaits, fmt.Sprintf("%d of its run must be replayed or discarded first", d.Event.Seq))
	}
	return slices.DeleteFunc(slices.Clone(later), func(e exporter.Event) bool { return !otherRun(e) })
}

// ready implements resending: it prolongs the claims, and drops the letters that
// are not ours any more.
func (r *replayer) ready(events []exporter.Event) ([]exporter.Event, error) {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	got, err := r.store.ClaimLetters(ctx, idsOf(r.lettersOf(events)), r.by, claimTime)
	if err != nil {
		return nil, err
	}
	have := idsOf(got)
	return slices.DeleteFunc(slices.Clone(events), func(e exporter.Event) bool {
		d := r.claimed[e.Identity()]
		if slices.Contains(have, d.ID) {
			return false
		}
		r.answers.add(&d, answerRefused, "somebody else has taken it meanwhile")
		return true
	}), nil
}

// accepted implements resending: it records what the sink has.
func (r *replayer) accepted(events []exporter.Event) error {
	if len(events) == 0 {
		return nil
	}
	letters := r.lettersOf(events)
	ids := idsOf(letters)
	var done []int64
	var err error
	var backoff exporter.Backoff
	for range recordTries { // what the sink has accepted is worth recording
		ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
		done, err = r.store.Replayed(ctx, ids, r.by, r.reviewed)
		cancel()
		if err == nil {
			break
		}
		time.Sleep(backoff.Next())
	}
	if err != nil {
		for i := range letters {
			r.answers.add(&letters[i], answerFailed, "the sink has it, but that could not be recorded, so it can come again: "+err.Error())
		}
		return err
	}
	r.taken = append(r.taken, done...)
	r.answers.addAll(letters, ids, done, answerReplayed, "the sink has it, but somebody else has decided about it meanwhile")
	return nil
}

func (r *replayer) failed(d *cursor.DeadLetter, why string) {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	if err := r.store.ReplayFailed(ctx, d.ID, r.by, why, r.reviewed); err != nil {
		r.log.Warn("the failed replay is not recorded; the claim expires by itself", "dead_letter", d.ID, "err", err)
	}
}

func (r *replayer) unclaim(events []exporter.Event) {
	if len(events) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	if err := r.store.UnclaimLetters(ctx, idsOf(r.lettersOf(events)), r.by); err != nil {
		r.log.Warn("dead letters were not given back; the claim expires by itself", "err", err)
	}
}

func idsOf(letters []cursor.DeadLetter) []int64 {
	ids := make([]int64, len(letters))
	for i := range letters {
		ids[i] = letters[i].ID
	}
	return ids
}
