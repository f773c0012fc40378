// Package retention compares how long Docket is said to keep events with what
// its table shows, and decides when Docket's pruner is to be held off.
//
// It promises that a contradiction is claimed only where the table proves it:
// a young or an idle Docket contradicts nothing. It holds no SQL and no clock;
// callers feed it with what they saw and when.
package retention
