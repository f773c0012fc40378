package cursor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	exporter "github.com/docket-exporter/exporter"
)

// The stored types are columns as they are read, before they become values.

type storedPosition struct {
	high  int64
	holes string
}

func (p storedPosition) value() (exporter.Position, error) {
	holes, err := exporter.ParseRanges(p.holes)
	if err != nil {
		return exporter.Position{}, fmt.Errorf("read position: %w", err)
	}
	return exporter.Position{High: p.high, Holes: holes}, nil
}

type storedIntent struct {
	attempt      int
	high         *int64
	holes        *string
	events, rows *int64
	hash         *string // hex: the text of a bytea depends on bytea_output
}

// value returns nil when no batch is in flight.
func (in storedIntent) value(number int64) (*exporter.Intent, error) {
	if in.high == nil {
		return nil, nil
	}
	to, err := storedPosition{*in.high, *in.holes}.value()
	if err != nil {
		return nil, err
	}
	hash, err := hex.DecodeString(*in.hash)
	if err != nil || len(hash) != sha256.Size {
		return nil, fmt.Errorf("read intent: its hash is %q, want %d bytes in hex", *in.hash, sha256.Size)
	}
	return &exporter.Intent{
		Number: number, Attempt: in.attempt, To: to,
		Events: int(*in.events), Rows: int(*in.rows), Hash: [sha256.Size]byte(hash),
	}, nil
}

// storedMark is a mark; all NULL for none.
type storedMark struct {
	id, seq *int64
	run     *string
	hash    *string // hex, as of an intent
	at      *time.Time
}

func storedMarkOf(m *exporter.Mark) storedMark {
	if m == nil {
		return storedMark{}
	}
	run := clean(m.RunID)
	return storedMark{id: &m.EventID, seq: &m.Seq, run: &run, hash: new(hex.EncodeToString(m.Hash[:])), at: &m.InsertedAt}
}

// value returns nil when nothing has been read.
func (m storedMark) value() (*exporter.Mark, error) {
	if m.id == nil {
		return nil, nil
	}
	hash, err := hex.DecodeString(*m.hash)
	if err != nil || len(hash) != sha256.Size {
		return nil, fmt.Errorf("read mark: its hash is %q, want %d bytes in hex", *m.hash, sha256.Size)
	}
	return &exporter.Mark{
		Identity: exporter.Identity{RunID: *m.run, Seq: *m.seq, EventID: *m.id},
		Hash:     [sha256.Size]byte(hash), InsertedAt: *m.at,
	}, nil
}

type storedPause struct {
	reason, detail, by *string
	at                 *time.Time
}

func (p storedPause) value() *Pause {
	if p.at == nil {
		return nil
	}
	return &Pause{Reason: *p.reason, Detail: *p.detail, By: *p.by, At: *p.at}
}
