package exporter_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/docket-exporter/exporter"
)

// world is a Docket database, a sink and a consumer's durable row, small enough
// to see whether an event is lost. It lives in a bubble of synctest. A page may
// be read beside the other calls; they wait for it, so that the calls of a run
// always come in the same order.
type world struct {
	t    rapid.TB
	turn chan struct{} // full while a call is being served; waiting for it lets time pass

	rows  map[int64]row // visible
	open  map[int64]row // drew an id, has not committed
	last  int64         // the highest id handed out; one that is neither visible nor open is dead
	limit int           // rows a page

	taken     map[int64]int       // how often the sink has taken an event
	delivered []exporter.Identity // to the sink, in order
	replayed  []exporter.Identity // of those the ones that a person has released
	blind     bool                // the sink does not name what it refuses
	now       exporter.Batch
	lent      [2][]exporter.Event // what the last two calls of the source returned
	store     store

	// at is told of every boundary of a call: "poll" before it, "polled" after
	// it has taken effect. What it returns is the call's error.
	at     func(point string) error
	points []string
}

// inWorld runs a test in a bubble of its own.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t)) })
}

type row struct {
	exporter.Event
	filtered, poison bool
	refused          bool // by the sink, for good
}

func newWorld(t rapid.TB) *world {
	return &world{t: t, turn: make(chan struct{}, 1), rows: map[int64]row{}, open: map[int64]row{}, taken: map[int64]int{}, limit: 3}
}

// insert commits rows; each gets the next id.
func (w *world) insert(rows ...row) {
	for _, r := range rows {
		w.begin(r)
		w.commit(w.last)
	}
}

// begin draws an id for a row that is not visible yet.
func (w *world) begin(r row) int64 {
	w.last++
	r.ID = w.last
	w.open[r.ID] = r
	return r.ID
}

func (w *world) commit(id int64) {
	w.rows[id] = w.open[id]
	delete(w.open, id)
}

func (w *world) rollback(id int64) { delete(w.open, id) }

func event(run string, seq int64) row { return row{Event: exporter.Event{RunID: run, Seq: seq}} }

// serve begins a call and returns what ends it.
func (w *world) serve() (done func()) {
	w.turn <- struct{}{}
	return func() { <-w.turn }
}

func (w *world) point(name string) error {
	w.points = append(w.points, name)
	if w.at == nil {
		return nil
	}
	return w.at(name)
}

// count returns how often a boundary was passed.
func (w *world) count(point string) (n int) {
	for _, p := range w.points {
		if p == point {
			n++
		}
	}
	return n
}

// Poll implements exporter.Source.
func (w *world) Poll(_ context.Context, from exporter.Position) (exporter.Batch, error) {
	defer w.serve()()
	w.reuse()
	if err := w.point("poll"); err != nil {
		return exporter.Batch{}, err
	}
	b := w.page(from)
	w.lent[1] = b.Events
	return b, w.point("polled")
}

// reuse overwrites the events that the call before the last one returned, as a
// source may.
func (w *world) reuse() {
	for i := range w.lent[0] {
		w.lent[0][i] = exporter.Event{RunID: "overwritten", Seq: -1, ID: -1}
	}
	w.lent[0], w.lent[1] = w.lent[1], nil
}

// page reads rows in id order up to the limit.
func (w *world) page(from exporter.Position) exporter.Batch {
	b := exporter.Batch{From: from}
	high, cut := from.High, int64(0)
	for _, id := range slices.Sorted(maps.Keys(w.rows)) {
		if from.Contains(id) {
			continue
		}
		if b.Rows == w.limit {
			b.More, cut = true, id
			break
		}
		w.add(&b, id)
		high = max(high, id)
		if id <= from.High {
			b.Filled++
		}
	}
	var still exporter.Ranges // ids that stay open
	for id := int64(1); id <= high; id++ {
		_, visible := w.rows[id]
		_, open := w.open[id]
		switch {
		case from.Contains(id):
		case open, visible && cut > 0 && id >= cut:
			still = still.Append(exporter.Range{Lo: id, Hi: id})
		case !visible:
			b.Dead = b.Dead.Append(exporter.Range{Lo: id, Hi: id})
		}
	}
	b.To = from.Advance(high, still).Fill(from.Holes.Minus(still))
	b.Sort(nil)
	return b
}

func (w *world) add(b *exporter.Batch, id int64) {
	r := w.rows[id]
	b.Rows++
	switch {
	case r.filtered:
	case r.poison:
		b.Poison = append(b.Poison, exporter.Rejection{Event: r.Event, Class: "undecodable"})
	default:
		b.Events = append(b.Events, r.Event)
	}
}

// Replay implements exporter.Source.
func (w *world) Replay(_ context.Context, from, to exporter.Position) (exporter.Batch, error) {
	defer w.serve()()
	w.reuse()
	if err := w.point("replay"); err != nil {
		return exporter.Batch{}, err
	}
	b := exporter.Batch{From: from, To: to}
	for id := range w.between(from, to) {
		w.add(&b, id)
	}
	b.Sort(nil)
	w.lent[1] = b.Events
	return b, w.point("replayed")
}

// between returns the visible rows that are done in to and not in from.
func (w *world) between(from, to exporter.Position) map[int64]row {
	found := map[int64]row{}
	for id, r := range w.rows {
		if to.Contains(id) && !from.Contains(id) {
			found[id] = r
		}
	}
	return found
}

// Visible implements exporter.Source.
func (w *world) Visible(_ context.Context, ids exporter.Ranges) (exporter.Ranges, error) {
	defer w.serve()()
	w.reuse()
	if err := w.point("sweep"); err != nil {
		return nil, err
	}
	var visible exporter.Ranges
	for _, id := range slices.Sorted(maps.Keys(w.rows)) {
		if ids.Contains(id) {
			visible = visible.Append(exporter.Range{Lo: id, Hi: id})
		}
	}
	return visible, w.point("swept")
}

// Deliver implements exporter.Sink. It takes all of a batch, or names the
// events in it that it refuses.
func (w *world) Deliver(ctx context.Context, b exporter.Batch) error {
	synctest.Wait() // for a page that is being read meanwhile
	defer w.serve()()
	w.checkOffer(b)
	w.now = b
	if err := w.point("deliver"); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var no exporter.RejectedError
	for _, e := range b.Events {
		if w.rows[e.ID].refused {
			no.Rejections = append(no.Rejections, exporter.Rejection{Event: e, Class: "refused"})
		}
	}
	if len(no.Rejections) > 0 && w.blind {
		return &exporter.RefusedError{Err: errors.New("a constraint is violated"), Class: "constraint"}
	}
	if len(no.Rejections) > 0 {
		return &no
	}
	w.take(b.Events)
	return w.point("delivered")
}

func (w *world) take(events []exporter.Event) {
	for _, e := range events {
		w.taken[e.ID]++
		w.delivered = append(w.delivered, e.Identity())
	}
}

// checkOffer checks what the sink is shown: only a batch that has been written
// down, only events that are not done, and of a run none before its earlier ones.
func (w *world) checkOffer(b exporter.Batch) {
	w.t.Helper()
	in := w.store.intent
	if w.store.refused {
		w.t.Fatalf("the sink was called by an owner that has been fenced")
	}
	if in == nil || in.Number != b.Number || in.Attempt != b.Attempt || len(b.Events) == 0 || b.Consumer != "feed" {
		w.t.Fatalf("offered batch %d attempt %d of %q with %d events, begun was %+v", b.Number, b.Attempt, b.Consumer, len(b.Events), in)
	}
	offered := map[int64]bool{}
	for _, e := range b.Events {
		if !in.To.Contains(e.ID) || w.store.position.Contains(e.ID) {
			w.t.Fatalf("event %d does not lie between %v and %v", e.ID, w.store.position, in.To)
		}
		for _, r := range w.rows {
			earlier := r.RunID == e.RunID && r.Seq < e.Seq && !r.filtered && !r.poison && !r.refused
			if earlier && w.taken[r.ID] == 0 && !offered[r.ID] && !w.aside(r.ID) {
				w.t.Fatalf("%s/%d was offered before %d", e.RunID, e.Seq, r.Seq)
			}
		}
		offered[e.ID] = true
	}
}

// aside reports whether an event is a dead letter already, or too old to be sent.
func (w *world) aside(id int64) bool {
	return w.rows[id].OccurredAt.Before(time.Now().Add(-30*time.Minute)) && !w.rows[id].OccurredAt.IsZero() ||
		slices.ContainsFunc(w.store.letters, func(l exporter.DeadLetter) bool { return l.Event.ID == id })
}

func (w *world) pipeline(o *owner) *exporter.Pipeline {
	return &exporter.Pipeline{Consumer: "feed", Source: w, Sink: w, Cursor: o}
}

// crash is what a call panics with when a test wants it to.
type crash struct{}

// run runs p. The check that fails inside a call of p panics, and Run takes
// that for a panic of the call: it goes on here.
func run(ctx context.Context, p *exporter.Pipeline, stop <-chan struct{}, from exporter.State) error {
	err := p.Run(ctx, stop, from)
	var panicked *exporter.PanicError
	if errors.As(err, &panicked) && panicked.Value != (crash{}) {
		panic(panicked.Value)
	}
	return err
}

// once copies until caught up.
func (w *world) once() error {
	o, state := w.claim()
	p := w.pipeline(o)
	p.Once = true
	return run(context.Background(), p, nil, state)
}

// runFor copies for a while, with the changes made to the pipeline.
func (w *world) runFor(d time.Duration, change ...func(*exporter.Pipeline)) error {
	o, state := w.claim()
	p := w.pipeline(o)
	for _, c := range change {
		c(p)
	}
	stop := make(chan struct{})
	defer time.AfterFunc(d, func() { close(stop) }).Stop()
	return run(context.Background(), p, stop, state)
}

// slowPolls is for tests that last for hours.
func slowPolls(p *exporter.Pipeline) { p.PollInterval = 30 * time.Second }

// checkComplete checks that every visible row has come to its end.
func (w *world) checkComplete() {
	w.t.Helper()
	letters := map[int64]int{}
	for _, l := range w.store.letters {
		letters[l.Event.ID]++
	}
	for id, r := range w.rows {
		aside := r.poison || r.refused
		switch {
		case r.filtered && w.taken[id] == 0:
		case aside && !r.filtered && w.taken[id] == 0 && letters[id] == 1:
		case !aside && !r.filtered && w.taken[id] > 0:
		default:
			w.t.Fatalf("event %d: taken %d times, %d dead letters, row %+v", id, w.taken[id], letters[id], r)
		}
		if !w.store.position.Contains(id) {
			w.t.Fatalf("event %d is not done at %v", id, w.store.position)
		}
	}
	if w.store.intent != nil {
		w.t.Fatalf("left in flight: %+v", w.store.intent)
	}
}

// again returns how many events were taken more than once, counted as often.
func (w *world) again() (n int) {
	for _, times := range w.taken {
		n += times - 1
	}
	return n
}

// ids returns the ids of the letters' events, ascending.
func ids(letters []exporter.DeadLetter) (out []int64) {
	for _, l := range letters {
		out = append(out, l.Event.ID)
	}
	slices.SortFunc(out, cmp.Compare[int64])
	return out
}

var errDown = errors.New("the server is down")

// fillMixed puts every kind of row into a world.
func (w *world) fillMixed() {
	w.insert(event("a", 1), event("b", 1))
	late := w.begin(event("c", 1))
	poison, filtered, refused := event("a", 2), event("b", 2), event("a", 3)
	poison.poison, filtered.filtered, refused.refused = true, true, true
	w.insert(poison, filtered, refused, event("a", 4))
	w.rollback(w.begin(event("d", 1)))
	w.insert(event("b", 3), event("d", 1), event("d", 2))
	w.at = func(point string) error {
		if _, open := w.open[late]; open && point == "accepted" && w.store.position.High > late {
			w.commit(late)
		}
		return nil
	}
}

func TestWorldIsCopied(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fillMixed()
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.checkComplete()
		if w.again() != 0 {
			t.Errorf("%d events taken twice", w.again())
		}
		if got := ids(w.store.letters); !slices.Equal(got, []int64{4, 6}) {
			t.Errorf("dead letters %v", got)
		}
	})
}
