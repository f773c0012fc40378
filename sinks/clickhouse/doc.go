// Package clickhouse delivers events as rows of a ClickHouse table.
//
// What the package promises:
//
//   - Deliver returns nil only after the server has answered a synchronous
//     INSERT with success (or, where the DSN turns async_insert on, after the
//     flush: wait_for_async_insert is always 1).
//   - A batch is one INSERT of one block, in (run_id, seq) order. It carries
//     the batch's token as insert_deduplication_token where the server knows
//     that setting, so a batch that comes again after a crash is dropped by the
//     server, and one that differs by a single event is not.
//   - Columns are found by name in the server's own description of the table.
//     An event field without a column is left out; a column that is no event
//     field gets its default. No value depends on when a row is delivered.
//   - A duplicate that the token does not catch (a rewound position, a window
//     that has passed) is absorbed by ReplacingMergeTree with the sorting key
//     (run_id, seq, event_id): SELECT … FINAL is exact.
//
// An error of the server is sorted by its code: overload, a table or account
// that a person must mend, a refusal of what is in the batch, or an outage.
// Neither a value of an event nor a secret of the DSN is ever part of an error.
package clickhouse
