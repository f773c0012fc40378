// Package docket reads a Docket database: it is the Source of a consumer, and
// holds the only SQL on Docket's tables.
//
// Ids come from a sequence when a row is inserted; transactions commit in
// another order. So the reader never asks "what is above the highest id I have
// seen"; it keeps every id that was handed out and is not visible open, and
// closes it on evidence alone:
//
//	nextval locks the sequence (RowExclusiveLock) before it hands out a value
//	and keeps the lock until the top-level transaction ends. An id is dead
//	when every transaction that held that lock after the id was handed out
//	has ended, and a newer snapshot still lacks the row.
//
// Time alone never closes an id, and nothing waits for one: rows behind it
// are delivered, the late row follows when it commits.
//
// One poll is one READ COMMITTED transaction on one backend, so that each
// statement has its own, newer snapshot:
//
//  1. who holds the sequence, and the server's surroundings
//  2. the page: visible rows among the open ids and above the position
//  3. who holds the sequence now, recorded as evidence for the ids missing
//  4. which ids, now known to be decided, are visible in one more snapshot
//
// Statements 1 and 2 never share a snapshot: that would declare rows dead
// whose transaction commits in between. A batch holds the rows of statement 2
// only; what statement 4 still finds stays open and comes with the next poll.
// Every batch is therefore one snapshot's view, which is what keeps the events
// of a run in order: a run's earlier event is visible whenever a later one is.
//
// Where nothing was handed out above a position without open ids, one small
// statement says so instead.
package docket
