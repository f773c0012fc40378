// Package cursor keeps consumers in PostgreSQL: their position, the batch in
// flight, who owns them, and what was given up. It is the only code with SQL
// on the exporter's own tables.
//
// It promises:
//
//   - The lease (owner and expiry, judged on the database's clock) decides who
//     works; the epoch, raised by each claim, decides whose writes count.
//   - Every write of a cursor is one UPDATE that names the epoch and the
//     revision it was made for. Each write raises the revision, so it stands
//     for batch number, attempt and intent at once: a write that was delayed,
//     or repeated because its answer got lost, changes nothing. A write that
//     finds its own result is a success; one that finds anything else is
//     exporter.ErrFenced.
//   - A position never uncovers an id, except by Reopen and by the audited Set.
//   - Dead letters, losses and the position that passes them are one transaction.
//
// No session state is used: it works through a transaction-pooling PgBouncer,
// with pools configured for pgx.QueryExecModeExec.
package cursor
