package docket

import (
	"context"
	"fmt"

	exporter "github.com/docket-exporter/exporter"
)

// Seen is what the source was when it was last read and found to be the known
// one. A server that was restarted is the same in all of it; one that was
// restored, replaced or promoted is not.
type Seen struct {
	System   int64  `json:"system,string"` // system identifier: two clusters never share it unless one is a physical copy of the other
	Timeline string `json:"timeline"`      // eight hexadecimal digits; raised by a promotion and by a restore to a point in time
	Table    uint32 `json:"table"`         // oid of docket_events; another one after it was dropped and made again, as by a restored dump
	Sequence uint32 `json:"sequence"`      // oid of the sequence of its ids
	WAL      int64  `json:"wal"`           // how much of the write-ahead log was on disk; on one timeline it never goes back
}

// next ends the details of a changed source.
const next = "; `exporter source show` compares it with what was read, `exporter source adopt` makes it the known one"

func changed(format string, args ...any) error {
	return &exporter.PauseError{Reason: exporter.PausedSourceChanged, Detail: fmt.Sprintf(format, args...) + next}
}

func (s *surroundings) seen() *Seen {
	return &Seen{System: s.system, Timeline: s.timeline, Table: s.oid, Sequence: s.seqOID, WAL: s.flushed}
}

// compare says whether the source is what it was: a standby is an error, and
// another server, another table or sequence, a value below the position and a
// server that went back in time are a *exporter.PauseError.
func (s *surroundings) compare(system int64, seen *Seen, t *table, from exporter.Position) error {
	if s.recovery {
		return errRecovery
	}
	switch {
	case system != 0 && s.system != system:
		return changed("the server has system identifier %d, before it was %d: the database was restored into another cluster or upgraded, or DOCKET_DATABASE_URL leads elsewhere", s.system, system)
	case s.oid != t.oid:
		return changed("%s was dropped and made again (oid %d, before %d), as by a restored dump: its ids may name other events", t.events, s.oid, t.oid)
	case s.seqOID != t.seqOID || s.ownsSeq != t.seqOID:
		return changed("the id sequence %s was replaced (oid %d, before %d): its ids may name other events", t.sequence, s.ownsSeq, t.seqOID)
	case seen != nil && s.timeline < seen.Timeline:
		return changed("the server is on timeline %s, before it was %s: it is a former primary, or was restored", s.timeline, seen.Timeline)
	case seen != nil && s.timeline == seen.Timeline && s.flushed < seen.WAL:
		return changed("the server's write-ahead log ends at %s, before it was at %s: its disk was restored", lsn(s.flushed), lsn(seen.WAL))
	case s.last < from.High:
		return changed("the id sequence %s is at %d, but the position is %d: the database was restored or has lost commits", t.sequence, s.last, from.High)
	case s.flawed:
		return &exporter.PauseError{Reason: exporter.PausedUnknownShape, Detail: fmt.Sprintf(
			"the id sequence %s has a CACHE, an INCREMENT or a CYCLE of its own: ids could appear that count as done; ALTER SEQUENCE %s CACHE 1 INCREMENT BY 1 NO CYCLE, then resume", t.sequence, t.sequence)}
	}
	return nil
}

// lsn prints a place in the write-ahead log as PostgreSQL does.
func lsn(at int64) string { return fmt.Sprintf("%X/%X", uint64(at)>>32, uint32(at)) }

// restarted reports whether the evidence about open ids is worthless: a server
// that was restarted or promoted, or made its shared memory anew after a backend
// crashed, renames prepared transactions.
func (s *surroundings) restarted(before *surroundings) bool {
	return before != nil && (!s.started.Equal(before.started) || !s.reset.Equal(before.reset) || s.timeline != before.timeline)
}

// SystemIdentifier returns the system identifier of the server that db leads
// to. A standby is an error.
func SystemIdentifier(ctx context.Context, db querier) (int64, error) {
	var recovery bool
	var id int64
	err := db.QueryRow(ctx, `SELECT pg_is_in_recovery(), (SELECT system_identifier FROM pg_control_system())`).Scan(&recovery, &id)
	if err != nil {
		return 0, fmt.Errorf("read the system identifier: %w", err)
	}
	if recovery {
		return 0, errRecovery
	}
	return id, nil
}
