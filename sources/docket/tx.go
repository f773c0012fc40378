package docket

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// tx is one READ COMMITTED, READ ONLY transaction on one backend: each of its
// statements has its own, newer snapshot, also behind a pooler. Statements go
// through the extended protocol unnamed, so nothing is prepared on the session.
type tx struct {
	conn    *pgxpool.Conn
	timeout time.Duration
	begun   bool
}

// statement is one statement with text parameters and binary results.
type statement struct {
	sql    string
	values [][]byte
	types  []uint32
	read   func(*pgconn.ResultReader) error
}

// binaryResults asks for every result column in binary.
var binaryResults = []int16{1}

func begin(ctx context.Context, pool *pgxpool.Pool, timeout time.Duration) (*tx, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the Docket database: %w", err)
	}
	return &tx{conn: conn, timeout: timeout}, nil
}

// settings make a read independent of what a role or a database has set: names
// mean the catalog's own, texts come as UTF-8 (as they are from a database that
// does not know their encoding), and a policy that hides rows is an error, since
// a hidden row would look dead.
const settings = `SELECT set_config('statement_timeout', $1, true), set_config('jit', 'off', true),
	set_config('search_path', 'pg_catalog', true), set_config('row_security', 'off', true),
	set_config('client_encoding', CASE current_setting('server_encoding') WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END, true)`

// run sends the statements in one round trip and reads their results in order.
func (t *tx) run(ctx context.Context, statements ...statement) error {
	var b pgconn.Batch
	skip := 0
	if !t.begun {
		b.ExecParams("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY", nil, nil, nil, nil)
		b.ExecParams(settings, [][]byte{strconv.AppendInt(nil, t.timeout.Milliseconds(), 10)}, []uint32{pgtype.TextOID}, nil, nil)
		t.begun, skip = true, 2
	}
	for _, s := range statements {
		b.ExecParams(s.sql, s.values, s.types, nil, binaryResults)
	}
	results := t.conn.Conn().PgConn().ExecBatch(ctx, &b)
	var err error
	for i := -skip; err == nil && results.NextResult(); i++ {
		if rr := results.ResultReader(); i < 0 || statements[i].read == nil {
			_, err = rr.Close()
		} else {
			err = statements[i].read(rr)
		}
	}
	closed := results.Close()
	if err != nil && closed != nil && err.Error() == closed.Error() { // which says a statement's error again
		return err
	}
	return errors.Join(err, closed)
}

// end finishes the transaction and gives the connection back. A connection in
// any other state than idle is closed by the pool.
func (t *tx) end(ctx context.Context) {
	if t.begun && t.conn.Conn().PgConn().TxStatus() == 'T' {
		_, _ = t.conn.Conn().PgConn().ExecParams(ctx, "COMMIT", nil, nil, nil, nil).Close()
	}
	t.conn.Release()
}

// The binary forms of PostgreSQL's types. postgresEpoch is 2000-01-01 UTC.
const postgresEpoch = 946684800

func int8At(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }
func int4At(b []byte) int32 { return int32(binary.BigEndian.Uint32(b)) }
func oidAt(b []byte) uint32 { return binary.BigEndian.Uint32(b) }
func boolAt(b []byte) bool  { return b[0] == 1 }

func timeAt(b []byte) time.Time {
	us := int8At(b)
	return time.Unix(postgresEpoch+us/1e6, us%1e6*1e3).UTC()
}

func appendInt8Array(dst []byte, values func(yield func(int64) bool)) []byte {
	dst = append(dst, '{')
	for v := range values {
		dst = append(strconv.AppendInt(dst, v, 10), ',')
	}
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	return append(dst, '}')
}
