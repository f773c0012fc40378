// Package reconcile compares what a consumer has done with what its sink holds.
//
// What the package promises:
//
//   - An event that the source has, that the consumer has done, and that the sink
//     lacks or holds with another content, is named.
//   - An event of the sink that the source has not is called extra only when
//     Docket cannot have deleted it.
//   - Memory is bounded by windows, not by events: both sides are read once and
//     summed up by windows of ids; only windows whose sums differ are read again,
//     a few at a time.
//
// Each transaction on the source is one short read.
package reconcile

import (
	"context"

	exporter "github.com/docket-exporter/exporter"
)

// Copy is a sink that can be read. What it calls digest is a number that is the
// same for an event of the source and for its copy, if the copy is right.
type Copy interface {
	// Sum calls add for windows of 2^shift ids with the copies in them that are
	// within ids, and the sum of their digests. The sum of a window may come in
	// several parts.
	Sum(ctx context.Context, ids exporter.Ranges, shift uint, add func(window, copies int64, sum uint64)) error
	// Rows calls visit for each copy of an event within ids, in no order. One that
	// is not genuine has not the idempotency key of its identity.
	Rows(ctx context.Context, ids exporter.Range, visit func(id exporter.Identity, digest uint64, genuine bool) error) error
	// Refresh makes Rows see what has come since Sum.
	Refresh(ctx context.Context) error
	// Digester returns functions for one goroutine. The digest of an event is the
	// sum of what event says of it and what run says of its run's columns, which
	// event does not look at; run is nil where these do not count.
	Digester() (event, run func(*exporter.Event) uint64)
}

const (
	shift          = 12             // of the ids of a window
	windowIDs      = 1 << shift     // ids in one window
	rowIDs         = 4 * windowIDs  // ids in one transaction on the source that reads whole rows
	identityIDs    = 16 * windowIDs // and in one that reads identities
	groupSpan      = 8 * windowIDs  // ids that are looked at again together
	mostListed     = 10_000         // events that a result names
	mostLetters    = 1000           // dead letters among them
	mostInventions = 100
	mostRuns       = 50_000 // runs that are remembered before they are looked up
	runsAtOnce     = 1000   // in one lookup
)

// sums are the rows and the digests of one side by window.
type sums map[int64]sum

type sum struct {
	rows   int64
	digest uint64
}

func (s sums) add(window, rows int64, digest uint64) {
	w := s[window]
	s[window] = sum{w.rows + rows, w.digest + digest}
}

func (s sums) merge(o sums) {
	for window, x := range o {
		s.add(window, x.rows, x.digest)
	}
}
