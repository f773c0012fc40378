package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// fsyncTimes are how long the disk takes to make a few kilobytes durable, in
// milliseconds: an accepted batch cannot be faster than a few of these.
func (b *bed) fsyncTimes() (s sample, err error) {
	path := filepath.Join(b.dir, "fsync")
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("time fsync: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(path)) }()
	block := make([]byte, 4<<10)
	for range 200 {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return nil, fmt.Errorf("time fsync: %w", err)
		}
		if err := f.Sync(); err != nil {
			return nil, fmt.Errorf("time fsync: %w", err)
		}
		s = append(s, milliseconds(time.Since(began)))
	}
	return s, nil
}
