package main

import (
	"slices"

	"github.com/docket-exporter/exporter/cursor"
)

// standing is what one replica knows about the sharing of consumers when it
// decides. All decisions follow from the numbers of consumers that replicas
// own, so that replicas which see the same decide alike.
type standing struct {
	me     string
	mine   int // consumers that this replica owns or is about to
	roster cursor.Roster
}

// behind names a replica that should rather have a consumer that is free: it is
// configured for it and owns fewer. It is empty when this one may take it.
func (s standing) behind(consumer string) string { return s.lighter(consumer, 1) }

// heir names a replica to which this one should give a consumer up: one that
// would still own no more than this one afterwards. Equal shares, and those
// that differ by one, stay as they are, so nothing moves to and fro.
func (s standing) heir(consumer string) string { return s.lighter(consumer, 2) }

// lighter names the replica that is configured for a consumer and owns the
// least, if that is at least difference fewer than this one's.
func (s standing) lighter(consumer string, difference int) string {
	least, name := s.mine-difference, ""
	for _, r := range s.roster.Replicas {
		if r.Name == s.me || !slices.Contains(r.Consumers, consumer) {
			continue
		}
		if owned := len(r.Owns); owned <= least {
			least, name = owned-1, r.Name
		}
	}
	return name
}
