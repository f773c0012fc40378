package exporter

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Batch is the events between two positions: exactly the visible rows whose id
// is done in To and not done in From, after the consumer's filter, ordered by
// run and seq.
type Batch struct {
	Consumer string // name
	UID      string // the consumer's identity; made once, never used again
	Shape    string // what of an event is delivered; part of the token
	Number   int64  // counts the consumer's batches
	Attempt  int    // 1 at the first try; durable
	Resumed  bool   // an earlier owner has begun it: some of it may be with the sink already

	From, To Position
	Events   []Event
	Poison   []Rejection // rows between From and To that no sink could be given
	Rows     int         // visible rows between From and To, filtered ones included
	Bytes    int64       // encoded payloads and metadata of Events and Poison
	More     bool        // a limit cut the batch: read again at once

	Mark   *Mark     // the row of the highest id read so far; nil when it is as before
	ReadAt time.Time // what was inserted before has been read once the batch is done, but for open ids; on the source's clock, zero when it is not known

	Filled  int    // rows that were open ids in From
	Dead    Ranges // ids that were dropped because they can never appear
	Blocked []Hole // ids that are still open in To, with who keeps them open; at most a few

	Losses  []Loss // what of the dropped ids may be lost events: to be recorded before anything of the batch is delivered
	Waiting bool   // nothing was taken although there may be more: it is not known yet whether ids before it are lost
}

// Mark is a row that was read, by which a source can be known again.
type Mark struct {
	Identity
	Hash       [sha256.Size]byte // over what the row holds
	InsertedAt time.Time
}

// Hole is a range of open ids: handed out, not visible, and perhaps still to come.
type Hole struct {
	Range
	Since   time.Time // when this process first saw it
	Holders []Holder
}

// Holder is a transaction that drew an id from the sequence and has not ended.
type Holder struct {
	Transaction string    `json:"transaction"`   // virtual transaction id
	PID         int32     `json:"pid,omitempty"` // 0 for a prepared transaction
	Prepared    string    `json:"gid,omitempty"` // name of a prepared transaction
	Application string    `json:"application,omitempty"`
	User        string    `json:"user,omitempty"`
	State       string    `json:"state,omitempty"` // as in pg_stat_activity
	Since       time.Time `json:"since"`           // start of the transaction where we may see it, else when we first saw it
}

// Empty reports whether the batch holds nothing to deliver or to dead-letter.
func (b *Batch) Empty() bool { return len(b.Events) == 0 && len(b.Poison) == 0 }

// largeEvent is the average size from which on events are large.
const largeEvent = 16 << 10

// Large reports whether the batch's events are large on average. Their bytes
// take the time then, and a second batch of them the memory: nothing is read
// ahead of such a batch, so its memory may be used again by the next one.
func (b *Batch) Large() bool { return b.Bytes > int64(len(b.Events)+len(b.Poison))*largeEvent }

// Hash covers the identities of the batch in order, undeliverable rows included.
func (b *Batch) Hash() [sha256.Size]byte {
	h := sha256.New()
	var piece []byte
	for i := range b.Events {
		piece = append(b.Events[i].Identity().appendEncoding(piece[:0]), '\n')
		h.Write(piece)
	}
	for i := range b.Poison {
		piece = append(b.Poison[i].Event.Identity().appendEncoding(piece[:0]), '!', '\n')
		h.Write(piece)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Token names a request to a sink that drops a request it has had before. It
// covers the consumer, the batch, the identities in their order, and what
// shapes the rows: the batch's Shape and the sink's own. An identical request
// has the same token after any crash; one that differs by a single event has
// another, so no event is swallowed. It is lower-case hex SHA-256.
func (b *Batch) Token(shape string) string {
	h := sha256.New()
	var piece []byte
	for _, s := range []string{b.UID, b.Shape, shape} {
		piece = append(strconv.AppendInt(piece, int64(len(s)), 10), ':')
		piece = append(piece, s...)
	}
	h.Write(append(strconv.AppendInt(piece, b.Number, 10), '\n'))
	for i := range b.Events {
		piece = append(b.Events[i].Identity().appendEncoding(piece[:0]), '\n')
		h.Write(piece)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Sort puts the events into the order in which they are offered to a sink: by
// run, seq and id. Runs are ordered by their bytes. The result takes the place
// of spare where that is large enough, and of a new array where it is not.
//
// Events of a run come from a source in order already, those of many runs
// mixed; so only the runs are sorted, and each event, which is large, is moved
// once.
func (b *Batch) Sort(spare []Event) {
	type group struct {
		run         string
		count, next int
	}
	groups := make([]group, 0, 64)
	index := make(map[string]int, 64)
	of := make([]int32, len(b.Events)) // the group of each event
	for i := range b.Events {
		if i > 0 && b.Events[i].RunID == b.Events[i-1].RunID {
			of[i] = of[i-1]
		} else {
			g, known := index[b.Events[i].RunID]
			if !known {
				g = len(groups)
				index[b.Events[i].RunID] = g
				groups = append(groups, group{run: b.Events[i].RunID})
			}
			of[i] = int32(g)
		}
		groups[of[i]].count++
	}
	order := make([]*group, len(groups))
	for i := range groups {
		order[i] = &groups[i]
	}
	slices.SortFunc(order, func(x, y *group) int { return strings.Compare(x.run, y.run) })
	at := 0
	for _, g := range order {
		g.next, at = at, at+g.count
	}
	sorted := slices.Grow(spare[:0], len(b.Events))[:len(b.Events)]
	for i := range b.Events {
		g := &groups[of[i]]
		sorted[g.next] = b.Events[i]
		g.next++
	}
	for _, g := range order {
		if run := sorted[g.next-g.count : g.next]; !ascending(run) {
			slices.SortFunc(run, func(x, y Event) int { return bySeq(&x, &y) })
		}
	}
	b.Events = sorted
}

// ByRun cuts sorted events into those of each run. The pieces share their memory.
func ByRun(events []Event) [][]Event {
	var runs [][]Event
	start := 0
	for i := range events {
		if i+1 == len(events) || events[i+1].RunID != events[i].RunID {
			runs = append(runs, events[start:i+1:i+1])
			start = i + 1
		}
	}
	return runs
}

func ascending(run []Event) bool {
	for i := 1; i < len(run); i++ {
		if bySeq(&run[i-1], &run[i]) > 0 {
			return false
		}
	}
	return true
}

func bySeq(x, y *Event) int { return cmp.Or(cmp.Compare(x.Seq, y.Seq), cmp.Compare(x.ID, y.ID)) }

// Source reads a Docket database for one consumer. Implementations are not
// safe for concurrent use, and may reuse a batch's memory at the second call
// after the one that returned it, that of a Large one at the first.
type Source interface {
	// Poll returns the next batch after from; an empty batch when there is
	// nothing new. It never waits for an open id. A *PauseError says that the
	// source is not what it was.
	Poll(ctx context.Context, from Position) (Batch, error)
	// Replay returns the batch between two known positions as it is now,
	// without limits: rows pruned since are missing.
	Replay(ctx context.Context, from, to Position) (Batch, error)
	// Visible returns those of ids that are visible rows.
	Visible(ctx context.Context, ids Ranges) (Ranges, error)
}

// Sink delivers batches. Deliver returns nil only when every event of the
// batch is durably accepted; errors.go lists what other answers mean. It must
// not keep the batch, must return soon after ctx ends, and must not retry by
// itself for long: the pipeline does.
type Sink interface {
	Deliver(ctx context.Context, batch Batch) error
}

// Cursor is the durable state of one consumer, held by its owner. Every write
// is fenced: it goes through only while this owner and its last write are
// still the newest, and returns ErrFenced otherwise.
type Cursor interface {
	// Begin writes down what is about to be delivered, before the sink sees it.
	Begin(ctx context.Context, intent Intent) error
	// Accept moves the position to a.To, records a.DeadLetters in the same
	// transaction, and clears the intent. Without an intent it moves over ids
	// that needed no delivery. The position never loses an id.
	Accept(ctx context.Context, a Acceptance) error
	// Reopen makes the position to, which has ids open that were done before:
	// rows that appeared after they had been declared dead.
	Reopen(ctx context.Context, to Position, dead Ranges) error
}

// Intent is a batch that has begun.
type Intent struct {
	Number  int64
	Attempt int
	To      Position
	Events  int
	Rows    int
	Hash    [sha256.Size]byte
}

// Acceptance ends a batch.
type Acceptance struct {
	Number      int64
	To          Position
	Dead        Ranges    // all ids remembered as dead
	Events      int       // accepted by the sink
	Last        *Identity // the accepted event with the highest id; nil when there is none
	DeadLetters []DeadLetter
	Mark        *Mark   // as in Batch
	Next        *Intent // the batch after it, which begins in the same write; nil when it is not known yet
	Lost        []Loss  // recorded in the same transaction
}

// DeadLetter is an event kept for a person.
type DeadLetter struct {
	Rejection
	Attempts int
}

// State is what a new owner starts from.
type State struct {
	UID      string
	Position Position
	Dead     Ranges  // ids declared dead, kept for the sweep
	Number   int64   // the last batch begun
	Intent   *Intent // a batch begun and not accepted
	Holders  []Holder
	Mark     *Mark         // of the last batch accepted that had one
	ReadAt   time.Time     // as in Batch, of the last renewal
	HoleAge  time.Duration // how long the oldest open id is known to be open; 0 when none is
}
