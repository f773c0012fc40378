package file

import (
	"slices"
	"time"

	"github.com/docket-exporter/exporter"
)

// settle brings the directory into a state in which a batch may be written: a
// broken segment is mended, a full one finished, and what another owner has
// left since our last look is taken over.
func (s *Sink) settle() error {
	if s.broken != nil {
		ours, err := s.broken.mend()
		if err != nil {
			return err
		}
		if s.broken = nil; !ours {
			return s.adopt()
		}
	}
	if s.open != nil && s.wasTouched() {
		_ = s.open.file.Close()
		s.open = nil
		return s.adopt()
	}
	if s.open != nil && s.isFull() {
		if err := s.open.finish(); err != nil {
			return err
		}
		s.open = nil
	}
	if s.open == nil {
		return s.lookAround()
	}
	return nil
}

// wasTouched reports whether somebody has done something to the open segment, and
// logs what.
func (s *Sink) wasTouched() bool {
	what, gone := s.open.touched()
	switch {
	case gone && s.open.size > 0:
		s.cfg.Log.Error(what, "file", s.open.path(), "then", "exporter reconcile --consumer "+s.consumer+" says which, and --repair sends them again")
	case what != "":
		s.cfg.Log.Warn(what, "file", s.open.path())
	}
	return what != ""
}

// isFull reports whether the open segment takes no further batch. It is asked
// when a batch comes: by then the batch before is accepted.
func (s *Sink) isFull() bool {
	return s.open.size >= s.cfg.SegmentBytes ||
		s.open.size > 0 && time.Since(s.open.opened) >= s.cfg.SegmentAge
}

// lookAround notices another owner that has come, and perhaps gone, while we
// had no segment open.
func (s *Sink) lookAround() error {
	l, err := list(s.cfg.Dir, s.consumer)
	if err != nil {
		return err
	}
	if len(l.open) > 0 || l.newest().After(s.newest) {
		return s.adopt()
	}
	return nil
}

// adopt takes the consumer's directory over: leftovers are repaired and
// finished, and the next batch is compared with what is there.
func (s *Sink) adopt() error {
	l, err := list(s.cfg.Dir, s.consumer)
	if err != nil {
		return err
	}
	s.fresh = true
	for _, n := range l.open {
		if err := repair(s.cfg.Dir, n, s.cfg.Log); err != nil {
			return err
		}
	}
	if t := l.newest(); t.After(s.newest) {
		s.newest = t
	}
	return syncDir(s.cfg.Dir) // also for renames of an owner that died before its own
}

// readBack also looks into files of the names that the consumer had when the batch
// may have been begun.
func (s *Sink) readBack(events []exporter.Event) (map[key]bool, error) {
	var finished []name
	for _, consumer := range append([]string{s.consumer}, s.cfg.Former...) {
		l, err := list(s.cfg.Dir, consumer)
		if err != nil {
			return nil, err
		}
		finished = append(finished, l.finished...)
	}
	slices.SortStableFunc(finished, func(a, b name) int { return a.stamp.Compare(b.stamp) })
	return readBack(s.cfg.Dir, finished, events)
}

// create opens a new segment whose name sorts behind all others.
func (s *Sink) create(firstID int64) error {
	stamp := time.Now().UTC().Truncate(time.Microsecond)
	if !stamp.After(s.newest) {
		stamp = s.newest.Add(time.Microsecond) // the clock went back
	}
	seg, err := createSegment(s.cfg.Dir, name{s.consumer, stamp, firstID})
	if err != nil {
		return err
	}
	s.open, s.newest = seg, stamp
	return nil
}

// finishAll is for the end. An unaccepted batch keeps its whole lines: it may
// have ended because our lease did, and then a new owner may count on them.
func (s *Sink) finishAll() error {
	if s.open != nil && !s.wasTouched() {
		return s.open.finish()
	}
	if s.open != nil {
		s.abandon()
	}
	if s.broken != nil && s.broken.isOurs() {
		return repair(s.cfg.Dir, s.broken.name, s.cfg.Log)
	}
	return nil
}
