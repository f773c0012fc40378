package docket

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	exporter "github.com/docket-exporter/exporter"
)

// errRecovery says that the connection leads to a standby. A standby does not
// show who holds a sequence, so nothing read there may become evidence.
var errRecovery = errors.New("the server is in recovery (a standby): DOCKET_DATABASE_URL must lead to the primary, for example with target_session_attrs=read-write")

// surroundings are what a poll must find unchanged, and the observation made
// with them.
type surroundings struct {
	observation
	recovery bool
	system   int64
	timeline string
	started  time.Time
	reset    time.Time // when the server's shared memory was made anew, as after the crash of a backend
	flawed   bool      // the sequence hands ids out in blocks, or not one after the other
	now      time.Time // the server's clock before the statement's snapshot
	inserted int64     // end of the WAL
	flushed  int64     // how much of it is on disk
	oid      uint32    // of docket_events
	seqOID   uint32    // of the sequence that was read
	ownsSeq  uint32    // of the sequence that docket_events.id owns by now
}

// surroundingsStatement lists who holds the id sequence and reads its value.
// The sequence is read directly: pg_sequence_last_value would take the very
// lock that is being listed. The timeline comes from the insert position,
// because the control file shows the old one for a while after a promotion.
func (t *table) surroundingsStatement(into *surroundings) statement {
	return statement{
		values: [][]byte{[]byte(t.events)}, types: []uint32{pgtype.TextOID},
		sql: `
SELECT pg_is_in_recovery(),
       (SELECT system_identifier FROM pg_control_system()),
       CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END,
       pg_postmaster_start_time(),
       coalesce(to_regclass($1)::oid, 0),
       q.tableoid,
       coalesce(to_regclass(pg_get_serial_sequence($1, 'id'))::oid, 0),
       CASE WHEN q.is_called THEN q.last_value ELSE q.last_value - 1 END,
       pg_stat_get_bgwriter_stat_reset_time(),
       coalesce((SELECT s.seqcache <> 1 OR s.seqincrement <> 1 OR s.seqcycle FROM pg_sequence s WHERE s.seqrelid = q.tableoid), false),
       CASE WHEN pg_is_in_recovery() THEN 0 ELSE (pg_current_wal_insert_lsn() - '0/0')::int8 END,
       CASE WHEN pg_is_in_recovery() THEN 0 ELSE (pg_current_wal_flush_lsn() - '0/0')::int8 END,
       statement_timestamp(),
       l.virtualtransaction, l.pid
FROM ` + t.sequence + ` q ` + t.holdersJoin(),
		read: func(rr *pgconn.ResultReader) (err error) {
			*into, err = readSurroundings(rr)
			return err
		},
	}
}

// holdersJoin joins the locks of the transactions that drew an id and have not
// ended to the sequence q. A holder is its virtual transaction: a prepared one
// has no process.
func (t *table) holdersJoin() string {
	return `LEFT JOIN pg_locks l ON l.locktype = 'relation' AND l.relation = q.tableoid AND l.granted
     AND l.mode = 'RowExclusiveLock'
     AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`
}

func readSurroundings(rr *pgconn.ResultReader) (surroundings, error) {
	var s surroundings
	s.at = time.Now()
	for first := true; rr.NextRow(); first = false {
		v := rr.Values()
		if first {
			s.recovery = boolAt(v[0])
			s.system, s.timeline = int8At(v[1]), string(v[2])
			s.started = timeAt(v[3])
			s.oid, s.seqOID, s.ownsSeq = oidAt(v[4]), oidAt(v[5]), oidAt(v[6])
			s.last = int8At(v[7])
			if v[8] != nil {
				s.reset = timeAt(v[8])
			}
			s.flawed, s.inserted, s.flushed = boolAt(v[9]), int8At(v[10]), int8At(v[11])
			s.now = timeAt(v[12])
		}
		if v[13] != nil {
			h := exporter.Holder{Transaction: string(v[13])}
			if v[14] != nil {
				h.PID = int4At(v[14])
			}
			s.holders = append(s.holders, h)
		}
	}
	_, err := rr.Close()
	return s, err
}

// descriptionStatement says who the holders are and whether they are idle. It
// costs the server several times what the list costs, so it is asked only
// about holders that stay.
func (t *table) descriptionStatement(into *[]description) statement {
	return statement{
		sql: `
SELECT l.virtualtransaction, l.pid, a.application_name, a.usename::text, a.state, a.state_change, a.xact_start,
       p.gid, p.prepared, p.owner::text
FROM ` + t.sequence + ` q ` + t.holdersJoin() + `
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN LATERAL (
       SELECT x.gid, x.prepared, x.owner
       FROM pg_locks k JOIN pg_prepared_xacts x ON x.transaction = k.transactionid
       WHERE l.pid IS NULL AND k.pid IS NULL AND k.locktype = 'transactionid'
         AND k.virtualtransaction = l.virtualtransaction
       LIMIT 1) p ON l.pid IS NULL
WHERE l.virtualtransaction IS NOT NULL`,
		read: func(rr *pgconn.ResultReader) error {
			for rr.NextRow() {
				*into = append(*into, readDescription(rr.Values()))
			}
			_, err := rr.Close()
			return err
		},
	}
}

func readDescription(v [][]byte) description {
	d := description{Holder: exporter.Holder{Transaction: string(v[0]), Application: string(v[2]), User: string(v[3]), State: string(v[4])}}
	if v[1] == nil { // a prepared transaction: it can draw nothing any more
		d.idle, d.State, d.Prepared, d.User = true, "prepared", string(v[7]), string(v[9])
		if v[8] != nil {
			d.Since = timeAt(v[8])
		}
		return d
	}
	d.PID = int4At(v[1])
	if v[6] != nil {
		d.Since = timeAt(v[6])
	}
	if v[5] != nil && (d.State == "idle in transaction" || d.State == "idle in transaction (aborted)") {
		d.idle, d.stamp = true, timeAt(v[5])
	}
	return d
}
