package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/docket-exporter/exporter/cursor"
)

// namesUsed are the names under which a consumer and its backfills have written.
type namesUsed struct {
	own    []string // those that they have, the consumer's first
	former []string // those that the consumer had
	ended  []string // those that its backfills had, and those of backfills that have ended
	taken  []string // of those they had, the names that another consumer has had since
	mixed  []string // of all but those, the names that another consumer had before
	uids   []string // of the consumer and its backfills
}

// readNames returns the names of a consumer and of its backfills.
func readNames(ctx context.Context, s *cursor.Store, name, uid string) (namesUsed, error) {
	changes, err := s.NameChanges(ctx)
	if err != nil {
		return namesUsed{}, err
	}
	return namesOf(name, uid, changes)
}

// namesOf follows the changes of names. A backfill belongs to the consumer that
// had the name which it was begun for at that time, else to the next one of that
// name; when a consumer is removed, to its successor.
func namesOf(name, uid string, changes []cursor.NameChange) (namesUsed, error) {
	h := nameHistory{holder: map[string]string{}, had: map[string][]string{}, of: map[string]string{}, orphans: map[string][]string{}, ended: map[string]bool{}}
	for i := range changes {
		if err := h.take(&changes[i]); err != nil {
			return namesUsed{}, err
		}
	}
	ours := func(other string) bool { return other == uid || h.of[other] == uid }
	used := namesUsed{own: []string{name}, uids: []string{uid}}
	for _, backfill := range slices.Sorted(maps.Keys(h.of)) {
		if ours(backfill) {
			used.uids = append(used.uids, backfill)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(h.had)) {
		before := h.had[n]
		if !slices.ContainsFunc(before, ours) {
			continue
		}
		if !ours(before[len(before)-1]) {
			used.taken = append(used.taken, n)
			continue
		}
		switch writer := h.holder[n]; {
		case n == name:
		case writer == "" && before[len(before)-1] == uid:
			used.former = append(used.former, n)
		case writer == "" || h.ended[writer]:
			used.ended = append(used.ended, n)
		default:
			used.own = append(used.own, n)
		}
		if slices.ContainsFunc(before, func(other string) bool { return !ours(other) }) {
			used.mixed = append(used.mixed, n)
		}
	}
	return used, nil
}

// nameHistory is who had which name, by uid.
type nameHistory struct {
	holder  map[string]string   // of a name, now
	had     map[string][]string // a name, in order
	of      map[string]string   // the consumer of a backfill
	orphans map[string][]string // backfills of a name that no consumer has
	ended   map[string]bool     // backfills
}

func (h *nameHistory) take(c *cursor.NameChange) error {
	if c.Before != "" && h.holder[c.Before] == c.UID {
		delete(h.holder, c.Before)
	}
	if c.After == "" {
		h.leave(c)
		return nil
	}
	h.ended[c.UID] = c.Ended
	if h.holder[c.After] != c.UID {
		h.holder[c.After] = c.UID
		h.had[c.After] = append(h.had[c.After], c.UID)
	}
	if c.Kind == cursor.Live {
		for _, backfill := range h.orphans[c.After] {
			h.of[backfill] = c.UID
		}
		delete(h.orphans, c.After)
		return nil
	}
	return h.attach(c)
}

// attach notes whose backfill it is, when it is first seen.
func (h *nameHistory) attach(c *cursor.NameChange) error {
	if _, known := h.of[c.UID]; known || c.Spec == nil {
		return nil
	}
	var spec backfillSpec
	if err := json.Unmarshal(c.Spec, &spec); err != nil {
		return fmt.Errorf("read what backfill %s was asked for: %w", c.After, err)
	}
	h.of[c.UID] = h.holder[spec.Consumer]
	if h.of[c.UID] == "" {
		h.orphans[spec.Consumer] = append(h.orphans[spec.Consumer], c.UID)
	}
	return nil
}

// leave makes the backfills of a consumer that is removed wait for its successor.
func (h *nameHistory) leave(gone *cursor.NameChange) {
	if gone.Kind != cursor.Live {
		return
	}
	for backfill, of := range h.of {
		if of == gone.UID {
			h.of[backfill] = ""
			h.orphans[gone.Before] = append(h.orphans[gone.Before], backfill)
		}
	}
}
