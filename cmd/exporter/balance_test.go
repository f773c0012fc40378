package main

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/docket-exporter/exporter/cursor"
)

func TestFairShare(t *testing.T) {
	all := []string{"x", "y"}
	replicas := func(a, b int) cursor.Roster {
		return cursor.Roster{Replicas: []cursor.Replica{
			{Name: "a", Consumers: all, Owns: make([]string, a)}, {Name: "b", Consumers: all, Owns: make([]string, b)},
		}}
	}
	for _, c := range []struct {
		mine, theirs     int
		consumer         string
		behind, gives    bool
		otherwiseBecause string
	}{
		{1, 0, "x", true, false, "they are first, and a difference of one is fair"},
		{0, 0, "x", false, false, "equal shares race"},
		{2, 0, "x", true, true, "two too many"},
		{2, 1, "x", true, false, "giving one would only turn the difference round"},
		{3, 1, "y", true, true, "two too many"},
		{0, 3, "x", false, false, "we are first"},
		{5, 0, "z", false, false, "they are not configured for it"},
	} {
		s := standing{me: "a", mine: c.mine, roster: replicas(c.mine, c.theirs)}
		if got := s.behind(c.consumer) == "b"; got != c.behind {
			t.Errorf("%d against %d: behind %v, want %v: %s", c.mine, c.theirs, got, c.behind, c.otherwiseBecause)
		}
		if got := s.heir(c.consumer) == "b"; got != c.gives {
			t.Errorf("%d against %d: gives %v, want %v: %s", c.mine, c.theirs, got, c.gives, c.otherwiseBecause)
		}
	}
}

// sharing is a model of replicas that decide by themselves.
type sharing struct {
	configured map[string][]string // by replica
	owner      map[string]string   // by consumer; empty when it is free
	freeFor    map[string]int      // rounds
}

func (m *sharing) roster() cursor.Roster {
	var r cursor.Roster
	for _, name := range sortedKeys(m.configured) {
		x := cursor.Replica{Name: name, Consumers: m.configured[name]}
		for _, c := range sortedKeys(m.owner) {
			if m.owner[c] == name {
				x.Owns = append(x.Owns, c)
			}
		}
		r.Replicas = append(r.Replicas, x)
	}
	return r
}

func (m *sharing) owned(by string) (n int) {
	for _, owner := range m.owner {
		if owner == by {
			n++
		}
	}
	return n
}

// claim lets replicas take what is free, in the given order: at once where
// they are not behind, else in the second round.
func (m *sharing) claim(order []string) {
	for _, consumer := range sortedKeys(m.owner) {
		if m.owner[consumer] != "" {
			continue
		}
		m.freeFor[consumer]++
		for _, me := range order {
			s := standing{me: me, mine: m.owned(me), roster: m.roster()}
			if slices.Contains(m.configured[me], consumer) && (s.behind(consumer) == "" || m.freeFor[consumer] > 1) {
				m.owner[consumer], m.freeFor[consumer] = me, 0
				break
			}
		}
	}
}

// give lets every replica give one up, by what it saw at the same moment.
func (m *sharing) give() (given int) {
	seen := m.roster()
	for _, me := range sortedKeys(m.configured) {
		s := standing{me: me, mine: m.owned(me), roster: seen}
		for _, c := range sortedKeys(m.owner) {
			if m.owner[c] == me && s.heir(c) != "" {
				m.owner[c] = ""
				given++
				break
			}
		}
	}
	return given
}

// However replicas come and go, and whoever is faster: nothing that somebody
// can run stays free, the shares become even, and then nothing moves any more.
func TestSharesBecomeEvenAndStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &sharing{configured: map[string][]string{}, owner: map[string]string{}, freeFor: map[string]int{}}
		replicas := rapid.IntRange(1, 4).Draw(t, "replicas")
		alike := rapid.Bool().Draw(t, "alike")
		for i := range rapid.IntRange(1, 9).Draw(t, "consumers") {
			m.owner[fmt.Sprintf("c%d", i)] = ""
		}
		join := func(name string) {
			for _, c := range sortedKeys(m.owner) {
				if alike || rapid.Bool().Draw(t, name+" runs "+c) {
					m.configured[name] = append(m.configured[name], c)
				}
			}
		}
		for i := range replicas {
			join(fmt.Sprintf("r%d", i))
			m.settle(t)
		}
		gone := rapid.SampledFrom(append(sortedKeys(m.configured), "nobody")).Draw(t, "gone")
		delete(m.configured, gone)
		for c, owner := range m.owner {
			if owner == gone {
				m.owner[c] = ""
			}
		}
		m.settle(t)
	})
}

func (m *sharing) settle(t *rapid.T) {
	moved := 0
	for range 3 * len(m.owner) {
		m.claim(rapid.Permutation(sortedKeys(m.configured)).Draw(t, "order"))
		moved = m.give()
	}
	m.claim(sortedKeys(m.configured))
	if moved > 0 {
		t.Fatalf("consumers still move: %v", m.owner)
	}
	for c, owner := range m.owner {
		for name, configured := range m.configured {
			if !slices.Contains(configured, c) {
				continue
			}
			if owner == "" {
				t.Fatalf("%s is free, and %s could run it", c, name)
			}
			if a, b := m.owned(owner), m.owned(name); a-b > 1 {
				t.Fatalf("%s owns %d and %s %d, and both could run %s: %v", owner, a, name, b, c, m.owner)
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
