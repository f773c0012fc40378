// Package verdict compares Docket's event table with the JSON-lines files that
// the file sink wrote from it: for `exporter demo`, the soak and crash tests.
//
// It knows nothing of the exporter but the form of its files, so it can find
// what the exporter does not: an event that is in no file, events of a run in
// another order than their seq, events written more than once, and events that
// the table does not have. Everything is held in memory.
package verdict
