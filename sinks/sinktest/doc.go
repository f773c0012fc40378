// Package sinktest is the one acceptance suite that every sink passes.
//
// A sink's test says how to open the sink on a real destination and how to read
// that destination, and calls Run. What Run asks is what the pipeline relies
// on: nil means that all is there, in seq order per run; any other answer means
// that the batch can come again; and nothing of an event changes on the way.
package sinktest
