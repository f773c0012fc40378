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
	claimTime     = 2 * time.Minute // after which another replay may take the letters of one that died
	sendTime      = claimTime - 15*time.Second
	replayTries   = 5 // of a sink that is unavailable
	replayEvents  = 100
	replayBytes   = 4 << 20
	recordTries   = 5
	longestPause  = 30 * time.Second
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

	accepted []int64 // of the present chunk
	stopped  string  // why nothing more is tried
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
	ids := r.accepted
	if r.accepted = nil; len(ids) == 0 || ctx.Err() != nil {
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
	var ready []cursor.DeadLetter
	for len(got) > 0 {
		d := got[0]
		got = got[1:]
		if why := r.prepare(&d); why != "" {
			got = r.rejected(ctx, &d, why, got)
			continue
		}
		ready = append(ready, d)
	}
	r.send(ctx, ready)
	return nil
}

// prepare makes the event of a letter as the consumer's source would.
func (r *replayer) prepare(d *cursor.DeadLetter) (why string) {
	if err := r.render.Render(&d.Event); err != nil {
		return "undecodable: " + err.Error()
	}
	if d.Event.Identity().Key() != d.Key {
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
func (r *replayer) send(ctx context.Context, pending []cursor.DeadLetter) {
	var backoff exporter.Backoff
	for try := 1; len(pending) > 0; {
		err := r.deliver(ctx, pending, try)
		var rejected *exporter.RejectedError
		var refused *exporter.RefusedError
		var partial *exporter.PartialError
		var pause *exporter.PauseError
		var later *exporter.RetryAfterError
		wait := time.Duration(0)
		switch {
		case err == nil:
			r.took(pending)
			return
		case ctx.Err() != nil:
			r.giveUp(pending, answerFailed, "interrupted")
			return
		case errors.As(err, &pause):
			r.giveUp(pending, answerPerson, pause.Detail)
			return
		case errors.As(err, &refused) && len(pending) > 1:
			r.singly(ctx, pending)
			return
		case errors.As(err, &refused):
			r.rejected(ctx, &pending[0], refused.Error(), nil)
			return
		case errors.As(err, &rejected):
			before := len(pending)
			if pending = r.without(ctx, pending, rejected.Rejections); len(pending) < before {
				continue
			}
		case errors.As(err, &partial):
			pending, wait = r.partly(pending, partial.Pending), partial.After
		case errors.As(err, &later):
			wait = later.After
		}
		if try++; try > replayTries {
			r.giveUp(pending, answerFailed, err.Error())
			return
		}
		wait = min(max(wait, backoff.Next()), longestPause)
		r.log.Warn("the sink did not accept the dead letters; trying again", "events", len(pending), "in", wait, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		pending = r.prolong(pending)
	}
}

// deliver makes one request, which ends before the claims do.
func (r *replayer) deliver(ctx context.Context, letters []cursor.DeadLetter, try int) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	return r.sink.Deliver(ctx, r.replayBatch(letters, try))
}

// singly sends letters one by one: the sink does not say which it refuses.
func (r *replayer) singly(ctx context.Context, letters []cursor.DeadLetter) {
	for len(letters) > 0 {
		one := r.prolong(letters[:1])
		letters = letters[1:]
		if r.stopped != "" {
			r.unclaim(letters)
			for i := range letters {
				r.answers.add(&letters[i], answerFailed, "not tried: "+r.stopped)
			}
			return
		}
		before := len(r.accepted)
		r.send(ctx, one)
		if len(one) > 0 && len(r.accepted) == before {
			letters = r.behind(ctx, &one[0], letters)
		}
	}
}

// without records the letters that the sink has named, and returns the others.
func (r *replayer) without(ctx context.Context, pending []cursor.DeadLetter, named []exporter.Rejection) []cursor.DeadLetter {
	for _, x := range named {
		i := slices.IndexFunc(pending, func(d cursor.DeadLetter) bool { return d.Event.Identity() == x.Event.Identity() })
		if i < 0 {
			continue
		}
		d := pending[i]
		pending = append(slices.Clone(pending[:i]), r.rejected(ctx, &d, x.Class+": "+x.Reason, pending[i+1:])...)
	}
	return pending
}

// partly records what the sink has accepted, and returns the rest.
func (r *replayer) partly(pending []cursor.DeadLetter, open []exporter.Event) (rest []cursor.DeadLetter) {
	left := map[exporter.Identity]bool{}
	for i := range open {
		left[open[i].Identity()] = true
	}
	var took []cursor.DeadLetter
	for _, d := range pending {
		if left[d.Event.Identity()] {
			rest = append(rest, d)
		} else {
			took = append(took, d)
		}
	}
	r.took(took)
	return rest
}

// rejected records that the sink will not take a letter, and returns those of
// the later ones that may go all the same.
func (r *replayer) rejected(ctx context.Context, d *cursor.DeadLetter, why string, later []cursor.DeadLetter) []cursor.DeadLetter {
	r.failed(d, why)
	r.answers.add(d, answerRejected, why)
	return r.behind(ctx, d, later)
}

// behind takes out what has to wait for a letter that stays.
func (r *replayer) behind(ctx context.Context, d *cursor.DeadLetter, later []cursor.DeadLetter) []cursor.DeadLetter {
	sameRun := func(l cursor.DeadLetter) bool { return l.Event.RunID == d.Event.RunID }
	if !slices.ContainsFunc(later, sameRun) {
		return later
	}
	held, err := r.store.HeldBehind(context.WithoutCancel(ctx), []int64{d.ID})
	if err == nil && len(held) == 0 {
		return later // nothing of the run is held: it goes on without its dead ones
	}
	var wait []cursor.DeadLetter
	rest := slices.DeleteFunc(slices.Clone(later), func(l cursor.DeadLetter) bool {
		if sameRun(l) {
			wait = append(wait, l)
		}
		return sameRun(l)
	})
	r.unclaim(wait)
	for i := range wait {
		r.answers.add(&wait[i], answerWaits, fmt.Sprintf("%d of its run must be replayed or discarded first", d.Event.Seq))
	}
	return rest
}

// prolong keeps the claims, and drops the letters that are not ours any more.
func (r *replayer) prolong(letters []cursor.DeadLetter) []cursor.DeadLetter {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	got, err := r.store.ClaimLetters(ctx, idsOf(letters), r.by, claimTime)
	if err != nil {
		r.giveUp(letters, answerFailed, err.Error())
		return nil
	}
	have := idsOf(got)
	return slices.DeleteFunc(slices.Clone(letters), func(d cursor.DeadLetter) bool {
		if slices.Contains(have, d.ID) {
			return false
		}
		r.answers.add(&d, answerRefused, "somebody else has taken it meanwhile")
		return true
	})
}

// took records that the sink has accepted letters.
func (r *replayer) took(letters []cursor.DeadLetter) {
	if len(letters) == 0 {
		return
	}
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
		r.stopped = err.Error()
		for i := range letters {
			r.answers.add(&letters[i], answerFailed, "the sink has it, but that could not be recorded, so it can come again: "+err.Error())
		}
		return
	}
	r.accepted = append(r.accepted, done...)
	r.answers.addAll(letters, ids, done, answerReplayed, "the sink has it, but somebody else has decided about it meanwhile")
}

// giveUp records that letters stay because of the sink, and tries no more.
func (r *replayer) giveUp(letters []cursor.DeadLetter, result, why string) {
	r.stopped = why
	for i := range letters {
		r.failed(&letters[i], why)
		r.answers.add(&letters[i], result, why)
	}
}

func (r *replayer) failed(d *cursor.DeadLetter, why string) {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	if err := r.store.ReplayFailed(ctx, d.ID, r.by, why, r.reviewed); err != nil {
		r.log.Warn("the failed replay is not recorded; the claim expires by itself", "dead_letter", d.ID, "err", err)
	}
}

func (r *replayer) unclaim(letters []cursor.DeadLetter) {
	if len(letters) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	if err := r.store.UnclaimLetters(ctx, idsOf(letters), r.by); err != nil {
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
