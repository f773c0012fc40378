package receiver

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DefaultTable is the ledger's name where no other is configured.
const DefaultTable = "docket_receipts"

// Schema returns the statement that makes a ledger unless it is there. The
// table may be schema.table. The primary key is what keeps an effect from
// happening twice; a table without it is refused by every request.
func Schema(table string) string {
	return "CREATE TABLE IF NOT EXISTS " + quote(table) + ` (
  key         text PRIMARY KEY,                   -- the event's idempotency key
  received_at timestamptz NOT NULL DEFAULT now(), -- when the effect was made
  result      bytea                               -- what the effect returned
)`
}

// quote quotes a table's name and its schema's.
func quote(table string) string {
	for i := range table {
		if table[i] == '.' {
			return pgx.Identifier{table[:i], table[i+1:]}.Sanitize()
		}
	}
	return pgx.Identifier{table}.Sanitize()
}

// ledger runs effects once per key.
type ledger struct {
	pool                  *pgxpool.Pool
	insert, store, lookUp string
}

func newLedger(pool *pgxpool.Pool, table string) ledger {
	table = quote(table)
	return ledger{
		pool: pool,
		// Naming the column makes PostgreSQL refuse the statement when nothing
		// enforces that keys are unique.
		insert: "INSERT INTO " + table + " (key) VALUES ($1) ON CONFLICT (key) DO NOTHING",
		store:  "UPDATE " + table + " SET result = $2 WHERE key = $1",
		lookUp: "SELECT result FROM " + table + " WHERE key = $1",
	}
}

// once runs effect and stores its result in one transaction, or returns the
// result that is stored already.
//
// While another transaction has inserted the same key and not ended, the
// insert waits for it: when that one commits there is a conflict and its result
// is visible to the next statement, since the transaction is READ COMMITTED;
// when it rolls back the insert goes on.
func (l *ledger) once(ctx context.Context, key string, effect func(pgx.Tx) ([]byte, error)) (result []byte, repeat bool, err error) {
	tx, err := l.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return nil, false, fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	tag, err := tx.Exec(ctx, l.insert, key)
	if err != nil {
		return nil, false, fmt.Errorf("insert key: %w", err)
	}
	if tag.RowsAffected() == 0 {
		if err := tx.QueryRow(ctx, l.lookUp, key).Scan(&result); err != nil {
			return nil, false, fmt.Errorf("look up result: %w", err)
		}
		return result, true, nil
	}
	if result, err = effect(tx); err != nil {
		return nil, false, err
	}
	if _, err := tx.Exec(ctx, l.store, key, result); err != nil {
		return nil, false, fmt.Errorf("store result: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return nil, false, fmt.Errorf("commit: %w", err)
	}
	return result, false, nil
}
