// Package file delivers events as JSON lines into segment files of a directory.
//
// A segment is called
//
//	<consumer>-<UTC>-<first event id>.jsonl        finished
//	<consumer>-<UTC>-<first event id>.jsonl.part   open
//
// with a time such as 20261129T101112.123456Z. The names of one consumer ascend
// in the order of delivery, also when the clock goes back. A line is one event
// (exporter.Event.AppendJSON); the events of a run are in seq order.
//
// What the package promises:
//
//   - Deliver returns nil only after the batch is written and fsynced, the
//     directory too where a file is new. A batch goes into one segment.
//   - A finished segment appears by an atomic rename, belongs to its reader, and
//     is neither written, renamed nor deleted by us again.
//   - When writing fails (disk full, I/O error) the segment is cut back to the
//     last accepted batch: no partial line stays, and the batch can come again.
//   - What a crash left open is repaired and finished before anything else is
//     written; the events of a batch that an earlier owner has begun and that
//     are already there are not written a second time.
//
// Two replicas need a shared directory, and only the owner of a consumer may
// have its sink open. A new owner finishes what the old one left. An old owner
// that wakes up does not write once its context is over, and sees that its file
// was taken from it.
package file
