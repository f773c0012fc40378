package main

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// missing are configured consumers that somebody has removed or renamed while
// this process runs. They do not make it unready: the others work, and a probe
// that fails would take all replicas out at once for what a person has done on
// purpose. /readyz and the log say it.
type missing struct {
	mu    sync.Mutex
	names map[string]bool
}

func (m *missing) note(consumer string, gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !gone {
		delete(m.names, consumer)
		return
	}
	if m.names == nil {
		m.names = map[string]bool{}
	}
	m.names[consumer] = true
}

// remark says which consumers are missing; empty when none is.
func (m *missing) remark() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.names) == 0 {
		return ""
	}
	return "; configured but removed or renamed, so not running: " + strings.Join(slices.Sorted(maps.Keys(m.names)), ", ")
}
