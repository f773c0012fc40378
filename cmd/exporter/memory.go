package main

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	baseMemory     = 96 << 20
	consumerMemory = 12 << 20
	containerShare = 0.6 // the rest is for what Go does not count, and for a payload larger than usual
)

// containerLimits are the files in which control groups tell their limit, the
// newer first.
var containerLimits = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

// limitMemory tells the garbage collector when to work harder, and returns
// what takes that back. Between two collections Go otherwise lets the memory
// of large payloads double.
func limitMemory(c Config, env map[string]string) (restore func()) {
	limit := memoryLimit(c, env, containerLimits)
	if limit == 0 {
		return func() {}
	}
	before := debug.SetMemoryLimit(limit)
	return func() { debug.SetMemoryLimit(before) }
}

// memoryLimit is in bytes; 0 leaves it to GOMEMLIMIT, which Go has read.
func memoryLimit(c Config, env map[string]string, files []string) int64 {
	if c.Exporter.Memory > 0 {
		return int64(c.Exporter.Memory)
	}
	if env["GOMEMLIMIT"] != "" {
		return 0
	}
	limit := int64(baseMemory + consumerMemory*len(c.Consumers))
	if container := containerLimit(files); container > 0 {
		limit = min(limit, int64(float64(container)*containerShare))
	}
	return limit
}

// containerLimit is in bytes; 0 when there is none.
func containerLimit(files []string) int64 {
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil { // max
			return 0
		}
		return n
	}
	return 0
}
