package exporter

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// Text is an optional string. The zero value is absent: NULL in SQL, null in JSON.
type Text struct {
	Value   string
	Present bool
}

// Event is one row of docket_events together with the tenant and graph of its run.
type Event struct {
	ID    int64 // docket_events.id; the event's transport identity, called event_id outside
	RunID string
	Seq   int64 // 1, 2, 3… within the run
	Type  string
	Step  int32

	NodeID, ChannelID, TaskID       Text
	TenantID, GraphID, GraphHash    Text // from docket_runs; absent when the run row is gone
	OccurredAt, InsertedAt          time.Time
	Payload, Metadata               []byte // JSON
	EncodedPayload, EncodedMetadata []byte // Docket's own bytes, kept for dead letters
}

// Identity names an event for good. A run id can be used again after its run
// was deleted, so (RunID, Seq) alone is not enough.
type Identity struct {
	RunID   string
	Seq     int64
	EventID int64
}

// Identity returns the event's identity.
func (e *Event) Identity() Identity { return Identity{e.RunID, e.Seq, e.ID} }

// Key is the idempotency key: lower-case hex SHA-256 over
//
//	len(run_id) ":" run_id ":" seq ":" event_id
//
// It comes from the event alone, so it never changes between attempts,
// replicas, restarts or batch cuts.
func (i Identity) Key() string { return string(i.AppendKey(nil)) }

// AppendKey appends the idempotency key to dst.
func (i Identity) AppendKey(dst []byte) []byte {
	var stack [256]byte
	sum := sha256.Sum256(i.appendEncoding(stack[:0]))
	return hex.AppendEncode(dst, sum[:])
}

// appendEncoding appends the unambiguous text that the key is made from.
func (i Identity) appendEncoding(dst []byte) []byte {
	dst = strconv.AppendInt(dst, int64(len(i.RunID)), 10)
	dst = append(append(append(dst, ':'), i.RunID...), ':')
	dst = append(strconv.AppendInt(dst, i.Seq, 10), ':')
	return strconv.AppendInt(dst, i.EventID, 10)
}

// Compare orders identities by run, seq and id: the order in which events are
// offered to a sink. Runs compare by their bytes.
func (i Identity) Compare(j Identity) int {
	return cmp.Or(
		cmp.Compare(i.RunID, j.RunID),
		cmp.Compare(i.Seq, j.Seq),
		cmp.Compare(i.EventID, j.EventID),
	)
}
