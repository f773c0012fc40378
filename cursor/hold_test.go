package cursor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/pgtest"
)

// letter is a dead letter of an event whose id is its seq.
func letter(run string, seq int64, class string) exporter.DeadLetter {
	e := event(seq)
	e.RunID = run
	return exporter.DeadLetter{Rejection: exporter.Rejection{Event: e, Class: class, Reason: "no"}, Attempts: 1}
}

// pass moves the position over letters.
func pass(t testing.TB, c *Cursor, letters ...exporter.DeadLetter) error {
	t.Helper()
	c.mu.Lock()
	to := exporter.Position{High: c.row.position.High + 1}
	c.mu.Unlock()
	return c.Accept(t.Context(), exporter.Acceptance{To: to, DeadLetters: letters})
}

// idOf returns the letter of an event.
func (f *fixture) idOf(run string, seq int64) int64 {
	f.t.Helper()
	return pgtest.Value[int64](f.t, f.admin, f.sql("SELECT id FROM {dead_letters} WHERE run_id = $1 AND seq = $2"), run, seq)
}

var eve = Reviewed{By: "eve", Reason: "looked at it"}

// Later events of a run are recorded as held while something of the run is
// undecided, and not otherwise.
func TestEventsAreHeldOnlyBehindAnUndecidedOne(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		c, _ := f.claim("a")
		must(t, pass(t, c, letter("r", 5, "refused"), letter("r", 6, exporter.ClassHeld), letter("late", 3, exporter.ClassExpired)))
		must(t, pass(t, c, letter("r", 7, exporter.ClassHeld)))
		runs, err := c.HeldRuns(t.Context())
		must(t, err)
		if len(runs) != 1 || runs["r"].Seq != 5 {
			t.Errorf("held runs %v, want r from 5 on", runs)
		}
		before := f.stored()
		for _, l := range []exporter.DeadLetter{letter("other", 2, exporter.ClassHeld), letter("r", 4, exporter.ClassHeld), letter("late", 4, exporter.ClassHeld)} {
			var released *exporter.ReleasedError
			if err := pass(t, c, l); !errors.As(err, &released) || len(released.Runs) != 1 || released.Runs[0] != l.Event.RunID {
				t.Errorf("held without cause: %v", err)
			}
		}
		if after := f.stored(); after != before {
			t.Errorf("the position moved\nfrom %s\nto   %s", before, after)
		}
		s := f.status()
		if s.DeadLettersOpen != 2 || s.DeadLettersHeld != 2 || s.DeadLetters != 4 || s.DeadLetterOldest == nil {
			t.Errorf("%d open, %d held, oldest %v", s.DeadLettersOpen, s.DeadLettersHeld, s.DeadLetterOldest)
		}
	})
}

// A decision that is being written while an event is to be held is waited for;
// one that comes while the event is being recorded waits, and finds it.
func TestReleaseAndHoldAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	c, _ := f.claim("a")
	must(t, pass(t, c, letter("r", 1, "refused")))
	first := f.idOf("r", 1)
	got, err := f.ClaimLetters(t.Context(), []int64{first}, "replay-1", ttl)
	must(t, err)
	if len(got) != 1 {
		t.Fatalf("claimed %v", got)
	}

	// The decision first.
	tx, err := f.admin.Begin(t.Context())
	must(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), f.sql("UPDATE {dead_letters} SET state = 'replayed', claimed_by = NULL, claimed_until = NULL WHERE id = $1"), first)
	must(t, err)
	answer := make(chan error, 1)
	go func() { answer <- pass(t, c, letter("r", 2, exporter.ClassHeld)) }()
	f.untilWaiting(1)
	must(t, tx.Commit(t.Context()))
	var released *exporter.ReleasedError
	if err := <-answer; !errors.As(err, &released) {
		t.Fatalf("recorded as held behind what was decided: %v", err)
	}

	// The held event first.
	f.exec("UPDATE {dead_letters} SET state = 'open', claimed_by = 'replay-1', claimed_until = clock_timestamp() + interval '1 minute'")
	tx, err = f.admin.Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), f.sql("SELECT FROM {dead_letters} WHERE id = $1 FOR SHARE"), first)
	must(t, err)
	decided := make(chan error, 1)
	go func() {
		_, err := f.Replayed(t.Context(), []int64{first}, "replay-1", eve)
		decided <- err
	}()
	f.untilWaiting(1)
	must(t, pass(t, c, letter("r", 2, exporter.ClassHeld)))
	must(t, tx.Commit(t.Context()))
	must(t, <-decided)
	behind, err := f.HeldBehind(t.Context(), []int64{first})
	must(t, err)
	if len(behind) != 1 || behind[0] != f.idOf("r", 2) {
		t.Errorf("behind the decided one are %v", behind)
	}
}

// While a run has held events its letters go in order, also those that were
// refused themselves, whoever has claimed the earlier ones.
func TestClaimsKeepTheOrderOfAHeldRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	c, _ := f.claim("a")
	must(t, pass(t, c, letter("r", 1, "refused"), letter("r", 3, "refused"), letter("r", 2, exporter.ClassHeld), letter("r", 4, exporter.ClassHeld)))
	must(t, pass(t, c, letter("free", 1, "refused"), letter("free", 2, "refused")))
	id := func(seq int64) int64 { return f.idOf("r", seq) }
	claim := func(by string, want int, ids ...int64) {
		t.Helper()
		got, err := f.ClaimLetters(t.Context(), ids, by, ttl)
		must(t, err)
		if len(got) != want {
			t.Errorf("%s got %d letters, want %d", by, len(got), want)
		}
	}
	claim("a", 0, id(2), id(3), id(4))
	claim("a", 1, id(1))
	claim("b", 0, id(1), id(2), id(3), id(4))
	claim("b", 1, f.idOf("free", 2)) // nothing of that run is held
	if done, err := f.Discard(t.Context(), []int64{id(1), f.idOf("free", 1)}, eve); err != nil || len(done) != 1 {
		t.Errorf("discarded %v, %v; want only what nobody has claimed", done, err)
	}
	f.exec("UPDATE {dead_letters} SET claimed_until = clock_timestamp() - interval '1 second' WHERE claimed_by = 'a'")
	claim("b", 4, id(1), id(2), id(3), id(4))
	if done, err := f.Replayed(t.Context(), []int64{id(1)}, "a", eve); err != nil || len(done) != 0 {
		t.Errorf("a replay whose claim is gone has decided %v, %v", done, err)
	}
	must(t, f.ReplayFailed(t.Context(), id(1), "b", "refused again", eve))
	if done, err := f.Replayed(t.Context(), []int64{id(1)}, "b", eve); err != nil || len(done) != 0 {
		t.Errorf("decided without a claim: %v, %v", done, err)
	}
	d, audit, err := f.DeadLetter(t.Context(), id(1))
	must(t, err)
	if d.State != StateOpen || d.Replays != 1 || d.LastError != "refused again" || d.ClaimedBy != "" ||
		len(audit) != 1 || audit[0].Who != "eve" || audit[0].After != "open" || audit[0].Error != "refused again" || audit[0].Command != replayCommand {
		t.Errorf("letter %+v, audit %+v", d, audit)
	}
}

// untilWaiting waits until so many backends wait for a lock.
func (f *fixture) untilWaiting(n int) {
	f.t.Helper()
	pgtest.Until(f.t, 20*time.Second, "a backend to wait for a lock", func() bool {
		return pgtest.Value[int](f.t, f.admin, "SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == n
	})
}

// An owner that reads events of a few runs, one of them refused now and then,
// and two replays beside it: each event reaches the sink once, in seq order of
// its run, and in the end nothing is held.
func TestHoldingAndReleasingAtRandom(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	c, _ := f.claim("a")
	var sink orderedSink
	var replays sync.WaitGroup
	written := make(chan struct{})
	for i := range 2 {
		replays.Go(func() {
			for done := false; !done; {
				select {
				case <-written:
					done = len(f.undecided()) == 0
				default:
				}
				f.replayAll(&sink, fmt.Sprintf("replay-%d", i))
			}
		})
	}
	held, err := c.HeldRuns(t.Context())
	must(t, err)
	seqs, releases := map[string]int64{}, 0
	for range 150 {
		run := fmt.Sprintf("run%d", rand.N(3))
		seqs[run]++
		l := letter(run, seqs[run], exporter.ClassHeld)
		if _, waits := held[run]; !waits {
			l.Class = "refused"
			if rand.N(4) > 0 {
				sink.take(l.Event)
				continue
			}
		}
		for {
			err := pass(t, c, l)
			var released *exporter.ReleasedError
			if errors.As(err, &released) {
				releases++
				held, err = c.HeldRuns(t.Context())
				must(t, err)
				if _, waits := held[run]; !waits {
					sink.take(l.Event)
					break
				}
				continue
			}
			must(t, err)
			held.Add(l.Event.Identity())
			break
		}
	}
	close(written)
	replays.Wait()
	sink.check(t, seqs)
	t.Logf("%d times a run had been released", releases)
}

func (f *fixture) undecided() []DeadLetter {
	list, err := f.DeadLetters(f.t.Context(), Letters{States: []string{StateOpen, StateHeld}})
	must(f.t, err)
	return list
}

// replayAll claims, delivers and decides what it can get, a few at a time.
func (f *fixture) replayAll(sink *orderedSink, by string) {
	var want []int64
	for _, d := range f.undecided() {
		if want = append(want, d.ID); len(want) == 3 {
			break
		}
	}
	for len(want) > 0 {
		got, err := f.ClaimLetters(f.t.Context(), want, by, ttl)
		must(f.t, err)
		var sent []int64
		for _, d := range got {
			sink.take(d.Event)
			sent = append(sent, d.ID)
		}
		if len(sent) == 0 {
			return
		}
		_, err = f.Replayed(f.t.Context(), sent, by, eve)
		must(f.t, err)
		want, err = f.HeldBehind(f.t.Context(), sent)
		must(f.t, err)
	}
}

// orderedSink keeps the order of each run.
type orderedSink struct {
	mu   sync.Mutex
	seqs map[string][]int64
}

func (s *orderedSink) take(e exporter.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seqs == nil {
		s.seqs = map[string][]int64{}
	}
	s.seqs[e.RunID] = append(s.seqs[e.RunID], e.Seq)
}

func (s *orderedSink) check(t *testing.T, want map[string]int64) {
	t.Helper()
	for run, last := range want {
		got := s.seqs[run]
		if int64(len(got)) != last {
			t.Errorf("%s: %d events, want %d", run, len(got), last)
		}
		for i, seq := range got {
			if seq != int64(i+1) {
				t.Fatalf("%s came as %v", run, got)
			}
		}
	}
}

// More held events than are kept pause the consumer, and nothing is recorded.
func TestTooManyHeldEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	c, _ := f.claim("a")
	must(t, pass(t, c, letter("r", 1, "refused"), letter("r", 2, exporter.ClassHeld)))
	f.exec(`INSERT INTO {dead_letters} (consumer_uid, consumer, event_id, run_id, seq, type, step, payload, metadata, idempotency_key, batch, class, reason, attempts, state)
		SELECT consumer_uid, consumer, 100 + n, run_id, 100 + n, type, step, payload, metadata, 'key ' || n, batch, class, reason, attempts, state
		  FROM {dead_letters}, generate_series(1, $1) n WHERE state = 'held'`, MaxHeld-2)
	must(t, pass(t, c, letter("r", 50_000, exporter.ClassHeld)))
	before := f.stored()
	var pause *exporter.PauseError
	if err := pass(t, c, letter("r", 50_001, exporter.ClassHeld)); !errors.As(err, &pause) || pause.Reason != exporter.PausedHeldEvents {
		t.Fatalf("one too many: %v", err)
	}
	if f.stored() != before || f.status().DeadLettersHeld != MaxHeld {
		t.Errorf("%d are held", f.status().DeadLettersHeld)
	}
}

// The breaker counts in the database, lets nothing be skipped, and a person who
// resumes lets the batch in flight through.
func TestRateOfDeadLetters(t *testing.T) {
	bothWays(t, func(t *testing.T, f *fixture) {
		c, _ := f.claim("a")
		c.LimitDeadLetters(5)
		must(t, pass(t, c, letter("a", 1, "refused"), letter("a", 2, "undecodable"), letter("a", 3, "refused")))
		must(t, pass(t, c, letter("b", 1, exporter.ClassExpired), letter("a", 4, exporter.ClassHeld), letter("b", 2, exporter.ClassExpired)))
		must(t, c.Release(t.Context(), false))
		c, _ = f.claim("b") // another owner goes on counting
		c.LimitDeadLetters(5)
		must(t, pass(t, c, letter("a", 5, "refused"), letter("a", 6, "refused")))
		large := []exporter.DeadLetter{letter("c", 1, "refused"), letter("c", 2, "refused"), letter("c", 3, "refused"), letter("c", 4, "refused"), letter("c", 5, "refused"), letter("c", 6, "refused"), letter("c", 7, "refused")}
		before := f.stored()
		var pause *exporter.PauseError
		if err := pass(t, c, large...); !errors.As(err, &pause) || pause.Reason != exporter.PausedDeadLetters ||
			!strings.Contains(pause.Detail, "CONSUMER_FEED_MAX_DEAD_LETTERS=5") || !strings.Contains(pause.Detail, "exporter deadletter list --consumer feed") {
			t.Fatalf("one too many: %v", err)
		}
		if f.stored() != before {
			t.Error("the position moved")
		}
		must(t, c.Pause(t.Context(), pause))
		must(t, c.Release(t.Context(), false))
		_, err := f.Resume(t.Context(), "feed", "eve", "known trouble")
		must(t, err)
		c, _ = f.claim("c")
		c.LimitDeadLetters(5)
		must(t, pass(t, c, large...))
		if err := pass(t, c, letter("d", 1, "refused")); !errors.As(err, &pause) {
			t.Errorf("after the batch that was let through: %v", err)
		}
		f.exec("UPDATE {dead_letters} SET first_at = first_at - interval '1 hour'")
		must(t, pass(t, c, letter("d", 1, "refused")))
		c.LimitDeadLetters(0)
		must(t, pass(t, c, letter("e", 1, "refused"), letter("e", 2, "refused"), letter("e", 3, "refused"), letter("e", 4, "refused"), letter("e", 5, "refused"), letter("e", 6, "refused")))
	})
}

// A letter that was decided is open again when a person has moved the position
// back and its event is refused once more; one that waits stays as it is.
func TestDecidedLetterIsOpenedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, direct)
	c, _ := f.claim("a")
	letters := []exporter.DeadLetter{letter("r", 1, "refused"), letter("r", 2, exporter.ClassHeld), letter("q", 1, "refused")}
	must(t, pass(t, c, letters...))
	waits := f.idOf("q", 1)
	if done, err := f.Discard(t.Context(), []int64{f.idOf("r", 1), f.idOf("r", 2)}, eve); err != nil || len(done) != 2 {
		t.Fatalf("discarded %v, %v", done, err)
	}
	must(t, c.Release(t.Context(), false))
	must(t, f.Set(t.Context(), "feed", exporter.Position{}, false, "eve", "the table was truncated"))
	c, _ = f.claim("b")
	letters[2].Class, letters[2].Reason = "too_large", "another word"
	letters[0].Event.Type, letters[0].Event.EncodedPayload = "run_failed", []byte{131, 97, 7} // after a restore, say
	f.exec("UPDATE {dead_letters} SET first_at = first_at - interval '1 day'")
	must(t, pass(t, c, letters...))
	d, _, err := f.DeadLetter(t.Context(), f.idOf("r", 1))
	must(t, err)
	if d.Event.Type != "run_failed" || string(d.Event.EncodedPayload) != "\x83a\x07" || time.Since(d.FirstAt) > time.Hour { // it counts for the breaker and ages anew
		t.Errorf("the opened letter holds what was there before: %+v", d)
	}
	for _, want := range []struct {
		run   string
		seq   int64
		state string
		class string
	}{{"r", 1, StateOpen, "refused"}, {"r", 2, StateHeld, exporter.ClassHeld}, {"q", 1, StateOpen, "refused"}} {
		d, _, err := f.DeadLetter(t.Context(), f.idOf(want.run, want.seq))
		must(t, err)
		if d.State != want.state || d.Class != want.class || want.run == "q" && d.ID != waits {
			t.Errorf("%s/%d is %s, %s", want.run, want.seq, d.State, d.Class)
		}
	}
	if n := f.count("{dead_letters}", "true"); n != 3 {
		t.Errorf("%d dead letters", n)
	}
	must(t, pass(t, c, letter("late", 1, exporter.ClassExpired)))
	must(t, pass(t, c, letter("late", 1, "refused"), letter("late", 2, exporter.ClassHeld))) // the deadline was taken away
	if d, _, err := f.DeadLetter(t.Context(), f.idOf("late", 1)); err != nil || d.Class != "refused" {
		t.Errorf("%+v, %v", d, err)
	}
}
