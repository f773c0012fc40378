// Package lag turns what a database says about consumers into how far behind
// they are, whether they are moving, and how long until retention reaches what
// they have not delivered.
//
// It promises that unknown is never shown as zero: a figure is there only when
// it was read, and 0 means that nothing was left to deliver. Ages are taken on
// one clock: those of events on that of the database the events come from,
// those of consumers on that of the exporter's own. The package holds no SQL;
// callers feed it with functions, and every process can show the lag of all
// consumers, whoever owns them.
package lag

import "time"

// Consumer is one consumer's state, whoever owns it, as one reading found it.
// Ages are as of that reading; nil ones are unknown.
type Consumer struct {
	UID, Name string
	Backfill  bool // it sends a part of the history again, and ends

	HighID     int64          // the id up to which everything is done, but for open ids
	OpenHoles  int            // ranges of open ids at or below HighID
	OldestHole *time.Duration // since the oldest open id is known to be open; 0 when none is, nil while no owner looks

	Owned   bool          // a process holds its lease
	Epoch   int64         // number of the last ownership
	Unowned time.Duration // since the last owner gave it up or lost it; 0 while it is owned
	Paused  string        // why nothing is delivered, as one word; empty when it is not paused

	SinceProgress  *time.Duration // since an event was accepted or nothing was left, whichever is later
	SincePoll      *time.Duration // since the owner last read the source
	EventsAccepted int64          // in its whole life
	Filtered       bool           // it does not want all events

	DeadLettersOpen  int64          // waiting for a decision
	DeadLettersHeld  int64          // waiting behind an open one of their run
	DeadLetterOldest *time.Duration // age of the oldest of both; nil when there is none
	LossesOpen       int64          // recorded and not yet accepted by a person
	LostEvents       int64          // the most events that they can stand for

	Backlog  *Backlog  // nil when it is unknown
	Forecast *Forecast // nil before two readings; Watch fills it in
}

// Backlog is what a consumer has not delivered.
type Backlog struct {
	Now    time.Time // on the source database's clock
	Head   int64     // the highest id handed out
	Events int64     // undelivered ones, or the most there can be
	Exact  bool      // Events was counted
	Oldest time.Time // when the oldest of them was inserted, on the same clock; zero when none was found
}

// Age returns how old the oldest undelivered event is, 0 when there is none.
// It is unknown when events are left but the oldest was not found.
func (b *Backlog) Age() (age time.Duration, known bool) {
	switch {
	case b == nil:
		return 0, false
	case !b.Oldest.IsZero():
		return max(b.Now.Sub(b.Oldest), time.Microsecond), true // the application's clock may be ahead; 0 is nothing left
	default:
		return 0, b.Exact && b.Events == 0
	}
}

// Headroom returns how long until a retention reaches the oldest undelivered
// event. It is negative where the event has outlived it, and unknown where the
// age is, or without a retention (0). A backfill has none: what it reads is about
// to be pruned by nature, and was there to be delivered once before.
func (c *Consumer) Headroom(retention time.Duration) (left time.Duration, known bool) {
	age, known := c.Backlog.Age()
	return retention - age, known && retention > 0 && !c.Backfill
}
