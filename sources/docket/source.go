package docket

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sources/docket/etf"
)

// Source reads one consumer's events. It is not safe for concurrent use.
type Source struct {
	pool      *pgxpool.Pool
	schema    string
	system    int64
	retention time.Duration
	filters   Filters
	limits    Limits
	timeout   time.Duration
	payload   etf.Decoder
	metadata  etf.Decoder
	noPayload bool

	table    *table // nil until found
	stale    bool   // the server did not know one of the names: resolve them again
	sql      queries
	around   *surroundings // of the last poll
	frontier frontier
	losses   losses

	seen       *Seen // of the last read, or as it was told
	saw        atomic.Pointer[Seen]
	marked     atomic.Pointer[exporter.Mark]
	mark       *exporter.Mark
	unverified bool // the mark is to be compared
	promoted   bool // the timeline is another one than when it was last compared

	since []exporter.Hole // when each open range was first seen

	described time.Time     // when the holders were last described
	patience  time.Duration // how long a hole is open before its holders are described, and between descriptions

	memory  [2]memory // of the last two batches, in turns
	turn    int
	scratch []byte
	scanned arena // of one row
}

var _ exporter.Source = (*Source)(nil)

// memory is what a batch is made of. It is used again for the batch after the
// next one.
type memory struct {
	arena arena
	rows  []exporter.Event // in the order in which they were read
	batch []exporter.Event // sorted
	ids   []int64
	large bool // as of the batch
	top   topRow
}

// Poll implements exporter.Source; the package comment describes it.
func (s *Source) Poll(ctx context.Context, from exporter.Position) (exporter.Batch, error) {
	if at, idle := s.isIdle(ctx, from); idle {
		s.losses.noteRead(from.High, at)
		return exporter.Batch{From: from, To: from, ReadAt: at}, nil
	}
	var b exporter.Batch
	s.nextMemory()
	poll := func(fast bool) error {
		return s.read(ctx, func(ctx context.Context, t *tx) (err error) {
			b, err = s.poll(ctx, t, from, fast)
			return err
		})
	}
	err := poll(true)
	if errors.Is(err, errRunGone) {
		err = poll(false)
	}
	return b, err
}

// lookAround is how often a poll looks at everything although nothing is new.
const lookAround = 5 * time.Second

// isIdle reports whether nothing can have happened: without open ids, and with
// no id handed out above the position, there is nothing to read. It spares an
// idle database the plans of the statements of a poll. at is the server's time
// before it looked.
func (s *Source) isIdle(ctx context.Context, from exporter.Position) (at time.Time, idle bool) {
	if len(from.Holes) > 0 || s.around == nil || s.unverified || s.stale || time.Since(s.around.at) > lookAround {
		return at, false
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := s.pool.QueryRow(ctx, s.sql.idle, from.High, s.table.seqOID).Scan(&at, &idle)
	return at, err == nil && idle
}

// errRunGone says that a run was deleted between its event and its columns.
var errRunGone = errors.New("a run was deleted while it was read")

func (s *Source) poll(ctx context.Context, t *tx, from exporter.Position, fast bool) (exporter.Batch, error) {
	full := len(from.Holes) >= MaxOpenRanges
	var before surroundings
	var p page
	if err := t.run(ctx, s.table.surroundingsStatement(&before), s.pageStatement(from, full, fast, &p)); err != nil {
		return exporter.Batch{}, err
	}
	if err := s.enter(before, from); err != nil {
		return exporter.Batch{}, err
	}
	fresh, err := s.verify(ctx, t, from.High, before.now)
	if err != nil {
		return exporter.Batch{}, err
	}
	if p.bare && p.cut && len(p.ids) == 0 { // its first row is a large one
		if err := t.run(ctx, s.pageStatement(from, full, false, &p)); err != nil {
			return exporter.Batch{}, err
		}
	}
	b := exporter.Batch{
		From: from, Events: p.rows, Poison: p.poison, Rows: len(p.ids), Bytes: p.bytes, More: p.cut,
		Mark: p.mark(from.High), ReadAt: p.readAt(from.High, !full && !p.cut, before.now),
	}
	read := rangesOf(p.ids)
	filled := read.Intersect(from.Holes)
	b.Filled = int(filled.Count())
	b.To = from.Fill(filled)
	if !p.cut || p.cutID > from.High { // else open ids were cut: nothing above High was taken, nothing is known of the rest
		top := max(from.High, p.highest)
		if !full && !p.cut {
			top = max(top, s.frontier.tail(before.flushed)) // burned ids above the last row
		}
		b.To = b.To.Advance(top, exporter.Ranges{{Lo: from.High + 1, Hi: max(top, from.High+1)}}.Minus(read))
		s.drop(&b, b.To.Holes.Intersect(s.frontier.decided()))
		if err := s.gatherEvidence(ctx, t, &b, before, &p, full); err != nil {
			return exporter.Batch{}, err
		}
	}
	if wait, err := s.judgeLosses(ctx, t, &b, &before, p.cut); err != nil || wait {
		return exporter.Batch{From: from, To: from, Blocked: b.Blocked, Waiting: wait}, err
	}
	s.noteHoles(&b)
	if err := s.describeOldest(ctx, t, &b); err != nil {
		return exporter.Batch{}, err
	}
	s.sort(&b)
	s.remember(&b, fresh)
	return b, nil
}

// remember keeps what the source is known by from now on.
func (s *Source) remember(b *exporter.Batch, fresh *exporter.Mark) {
	if b.Mark == nil {
		b.Mark = fresh
	} else {
		s.mark = b.Mark
	}
	s.marked.Store(s.mark)
	s.saw.Store(s.seen)
}

// Saw returns what the source was when it was last read, and nil before that.
// It may be called at any time.
func (s *Source) Saw() *Seen { return s.saw.Load() }

// Marked returns the row that was marked last, as it was read and not only as
// it was recorded. It may be called at any time.
func (s *Source) Marked() *exporter.Mark { return s.marked.Load() }

// drop declares ids dead.
func (s *Source) drop(b *exporter.Batch, dead exporter.Ranges) {
	b.To = b.To.Fill(dead)
	b.Dead = b.Dead.Union(dead)
}

// gatherEvidence lists the holders once more, after the page: whoever drew an
// id that the page lacks either is on the list or has ended. Ids that the list
// settles are looked up in one more snapshot; what is invisible there is dead,
// what is visible stays open for the next poll.
func (s *Source) gatherEvidence(ctx context.Context, t *tx, b *exporter.Batch, before surroundings, p *page, full bool) error {
	tail := !full && !p.cut && before.last > b.To.High
	if len(p.ids) == 0 && !tail && s.frontier.reaches(b.To.Holes) {
		return nil
	}
	var after surroundings
	ask := []statement{s.table.surroundingsStatement(&after)}
	runs := s.missingRuns(b, p)
	if len(runs) > 0 {
		ask = append(ask, s.runsStatement(runs))
	}
	if err := t.run(ctx, ask...); err != nil {
		return err
	}
	if err := runs.fill(b); err != nil {
		return err
	}
	if p.highest > after.last {
		return &exporter.PauseError{Reason: exporter.PausedSourceChanged, Detail: fmt.Sprintf(
			"%s holds id %d, but its sequence %s is at %d: the row was inserted with an explicit id, or the sequence was set back; "+
				"set the sequence above the highest id with setval and resume", s.table.events, p.highest, s.table.sequence, after.last)}
	}
	s.frontier.observe(after.observation)
	s.frontier.record(max(before.last, b.To.High), after.inserted)
	decided := s.frontier.decided()
	unknown := b.To.Holes.Intersect(decided)
	if len(unknown) == 0 {
		return nil
	}
	var visible exporter.Ranges
	var complete bool
	if err := t.run(ctx, s.idsStatement(unknown, &visible, &complete)); err != nil {
		return err
	}
	if len(visible) > 0 {
		b.More = true
	}
	if !complete {
		return nil
	}
	s.drop(b, unknown.Minus(visible))
	return nil
}

// Replay implements exporter.Source.
func (s *Source) Replay(ctx context.Context, from, to exporter.Position) (exporter.Batch, error) {
	b := exporter.Batch{From: from, To: to}
	s.nextMemory()
	err := s.read(ctx, func(ctx context.Context, t *tx) error {
		var around surroundings
		var p page
		if err := t.run(ctx, s.table.surroundingsStatement(&around), s.rangesStatement(s.sql.ranges, to.Minus(from), &p)); err != nil {
			return err
		}
		if err := s.enter(around, to); err != nil {
			return err
		}
		fresh, err := s.verify(ctx, t, from.High, around.now)
		if err != nil {
			return err
		}
		b.Events, b.Poison, b.Rows, b.Bytes = p.rows, p.poison, len(p.ids), p.bytes
		b.Mark, b.ReadAt = p.mark(from.High), p.readAt(from.High, false, around.now)
		s.losses.noteRead(to.High, b.ReadAt)
		s.remember(&b, fresh)
		return nil
	})
	s.sort(&b)
	return b, err
}

func (s *Source) sort(b *exporter.Batch) {
	m := &s.memory[s.turn]
	b.Sort(m.batch)
	m.batch, m.large = b.Events, b.Large()
}

// nextMemory turns to the memory of the batch before the last one.
func (s *Source) nextMemory() {
	if last := &s.memory[s.turn]; last.large {
		last.arena.reset()
	}
	s.turn = 1 - s.turn
}

// Visible implements exporter.Source.
func (s *Source) Visible(ctx context.Context, ids exporter.Ranges) (exporter.Ranges, error) {
	var visible exporter.Ranges
	err := s.read(ctx, func(ctx context.Context, t *tx) error {
		var around surroundings
		var complete bool
		if err := t.run(ctx, s.table.surroundingsStatement(&around), s.idsStatement(ids, &visible, &complete)); err != nil {
			return err
		}
		return s.enter(around, exporter.Position{})
	})
	return visible, err
}

// enter takes in the surroundings of a read, or refuses them.
func (s *Source) enter(around surroundings, at exporter.Position) error {
	err := around.compare(s.system, s.seen, s.table, at)
	if errors.Is(err, errRecovery) {
		s.pool.Reset() // the address may lead to the primary by now
	}
	if err != nil {
		return err
	}
	if around.restarted(s.around) {
		s.frontier.reset()
		s.unverified = true
	}
	if s.seen != nil && s.seen.Timeline != around.timeline {
		s.unverified, s.promoted = true, true
	}
	s.around, s.system, s.seen = &around, around.system, around.seen()
	s.frontier.observe(around.observation)
	return nil
}

// read runs f in one read transaction, finding the table first where needed.
func (s *Source) read(ctx context.Context, f func(context.Context, *tx) error) error {
	if err := s.find(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*s.timeout) // the server ends each statement; this ends a dead connection
	defer cancel()
	t, err := begin(ctx, s.pool, s.timeout)
	if err != nil {
		return err
	}
	defer t.end(ctx)
	return s.explain(f(ctx, t))
}

// find resolves the table's names once; their oids are compared in every poll.
func (s *Source) find(ctx context.Context) error {
	if s.table != nil && !s.stale {
		return nil
	}
	t, err := findTable(ctx, s.pool, s.schema)
	if err != nil {
		return err
	}
	switch { // what was known stays known: a table made again is another source
	case s.table != nil:
		t.oid, t.seqOID = s.table.oid, s.table.seqOID
	case s.seen != nil:
		t.oid, t.seqOID = s.seen.Table, s.seen.Sequence
	}
	s.table, s.sql, s.stale = t, newQueries(t, s.filters), false
	return nil
}

// explain turns the server's complaints about names into what they mean. The
// names are resolved again at the next read: a sequence may have been renamed.
func (s *Source) explain(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	switch pg.Code {
	case "42P01", "42703", "3F000": // undefined table, column, schema
		s.stale = true
	case "42501":
		return fmt.Errorf("read %s: grant SELECT on docket_events, docket_runs and %s (exporter migrate --print-grants): %w", s.table.events, s.table.sequence, err)
	}
	return fmt.Errorf("read %s: %w", s.table.events, err)
}
