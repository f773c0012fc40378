package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of processor times in /proc: USER_HZ, which is 100 on
// every architecture that Go runs on.
const clockTick = 10 * time.Millisecond

// peakMemory is the most memory a process has had resident, in bytes; 0 when it
// has ended.
func peakMemory(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseInt(fields[0], 10, 64) // a number, says proc(5)
	return kib << 10
}

// serverCPU is the processor time of the server and all its children, ended
// ones included.
func (b *bed) serverCPU() (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join(b.cluster.Dir(), "data", "postmaster.pid"))
	if err != nil {
		return 0, fmt.Errorf("find server process: %w", err)
	}
	postmaster, _, _ := strings.Cut(string(text), "\n")
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	var ticks int64
	for _, path := range stats {
		pid := filepath.Base(filepath.Dir(path))
		f := statFields(path)
		switch {
		case len(f) < 15:
		case pid == postmaster:
			ticks += sum(f[11:15])
		case f[1] == postmaster:
			ticks += sum(f[11:13])
		}
	}
	return time.Duration(ticks) * clockTick, nil
}

// statFields are the fields of proc(5)'s stat from the third on: what comes
// before may contain spaces.
func statFields(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil // it has ended
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

func sum(numbers []string) (total int64) {
	for _, n := range numbers {
		v, _ := strconv.ParseInt(n, 10, 64) // numbers, says proc(5)
		total += v
	}
	return total
}

// loadAverage is what else the machine has to do.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
