// Package docketsim imitates the Elixir library Docket 0.3.0 as far as its
// event tables show: the schema, the way transactions are made, and rows whose
// shapes and sizes are the real ones. It serves `exporter demo`, tests and
// benchmarks; it executes no graphs.
//
// What it promises about the rows: every run's seq counts from 1 without gaps,
// ids rise with seq within a run, each transition ends with one
// checkpoint_committed, and the last event of a finished run is the terminal
// one. What it provokes: commits out of id order, ids that never commit, and
// transactions that stay open.
package docketsim
