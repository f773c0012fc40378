package cursor

import (
	"errors"
	"fmt"
	"time"
)

// ErrNotFound says that there is no consumer of that name.
var ErrNotFound = errors.New("no such consumer")

// ErrExists says that there is a consumer of that name already.
var ErrExists = errors.New("there is a consumer of that name already")

// ErrNotOpen says of losses that nobody can accept them.
var ErrNotOpen = errors.New("not open, or not of this consumer")

// ErrFinished says that a backfill has ended.
var ErrFinished = errors.New("the backfill is finished")

// OwnedError says that another process holds the consumer's lease.
type OwnedError struct {
	Name, Owner string
	Until       time.Time // on the database's clock
}

func (e *OwnedError) Error() string {
	return fmt.Sprintf("consumer %s is owned by %s until %s", e.Name, e.Owner, e.Until.UTC().Format(time.RFC3339))
}

// PausedError says that the consumer is paused. A running owner gets it
// together with exporter.ErrFenced, since it must stop like a fenced one.
type PausedError struct {
	Name string
	Pause
}

func (e *PausedError) Error() string {
	return fmt.Sprintf("consumer %s was paused by %s: %s: %s", e.Name, e.By, e.Reason, e.Detail)
}

// Pause says who stopped a consumer and why.
type Pause struct {
	Reason string // one of the exporter's Paused constants
	Detail string
	By     string
	At     time.Time
}
