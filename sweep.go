package exporter

import "time"

// The dead ids kept for the sweep: the last million below High.
const deadSpan, deadRanges = 1_000_000, 10_000

// deadAfter returns the ids to remember as dead once b is done.
func (r *run) deadAfter(b Batch) Ranges {
	if len(b.Dead) == 0 {
		return r.dead
	}
	return r.dead.Union(b.Dead).Newest(b.To.High-deadSpan, deadRanges)
}

// sweep looks for rows that appeared after their ids were declared dead. No
// correct writer makes such rows; one found is opened again and delivered. It
// waits for a batch in flight, which was read without them and would pass them.
func (r *run) sweep() error {
	if len(r.dead) == 0 || r.again != nil || time.Since(r.lastSweep) < orDefault(r.SweepInterval, time.Hour) {
		return nil
	}
	var late Ranges
	err := r.insist(Reading, "sweep", func() (err error) {
		late, err = r.source.Visible(r.ctx, r.dead)
		return err
	})
	if err != nil {
		return err
	}
	r.lastSweep = time.Now()
	if len(late) == 0 {
		return nil
	}
	to, dead := r.at.Reopen(late), r.dead.Minus(late)
	if err := r.insist(Recording, "reopen", func() error { return r.Cursor.Reopen(r.ctx, to, dead) }); err != nil {
		return err
	}
	r.Metrics.late(late.Count())
	r.Log.Error("rows appeared after their ids were declared dead; delivering them now: a writer inserts explicit ids or the sequence has a cache",
		"ids", late.String())
	r.wrote(to, dead)
	return nil
}
