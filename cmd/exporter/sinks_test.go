package main

import (
	"testing"

	"github.com/docket-exporter/exporter/internal/verdict"
)

// table returns the identities of all committed events.
func (s *site) table() map[string]bool {
	s.t.Helper()
	rows, err := verdict.Table(s.t.Context(), s.pool, "public", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[string]bool{}
	for _, r := range rows {
		all[r.Key()] = true
	}
	return all
}

// Every event reaches the topic, and in seq order the first time it does.
func TestKilledOverPubSub(t *testing.T) {
	s := newSite(t)
	server := s.toPubSub()
	s.killedWhileWriting(min(rounds(t), 2))
	want, seen := s.table(), published(t, server)
	for key := range want {
		if seen[key] == 0 {
			t.Fatalf("an event is missing: %d of %d came", len(seen), len(want))
		}
	}
	t.Logf("%d events, %d messages", len(want), len(server.Messages()))
}
