package main

import "github.com/docket-exporter/exporter/sinks/file"

func checkFile(c FileConfig) error { return file.Check(c.sink()) }

// sink is the configuration in the sink's own terms.
func (c FileConfig) sink() file.Config {
	return file.Config{Dir: c.Dir, SegmentBytes: int64(c.SegmentBytes), SegmentAge: c.SegmentAge.Value()}
}
