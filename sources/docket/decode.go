package docket

import (
	"errors"
	"fmt"
	"slices"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sources/docket/etf"
)

// ClassUndecodable is the dead-letter class of a row that no sink can be given.
const ClassUndecodable = "undecodable"

// decode fills e from the values of a row. Bad bytes in one row are that
// row's trouble: a rejection. An envelope version we do not know is
// everybody's: a *exporter.PauseError.
func (s *Source) decode(e *exporter.Event, v [][]byte) (*exporter.Rejection, error) {
	e.ID, e.Seq, e.Step = int8At(v[0]), int8At(v[4]), int4At(v[6])
	s.texts(e, v)
	e.OccurredAt, e.InsertedAt = timeAt(v[13]), timeAt(v[14])
	e.EncodedPayload, e.EncodedMetadata = s.arena.copy(v[15]), s.arena.copy(v[16])

	reject := func(reason string) (*exporter.Rejection, error) {
		return &exporter.Rejection{Event: *e, Class: ClassUndecodable, Reason: reason}, nil
	}
	for _, t := range []struct {
		name string
		at   time.Time
	}{{"occurred_at", e.OccurredAt}, {"inserted_at", e.InsertedAt}} {
		if y := t.at.Year(); y < 0 || y > 9999 {
			return reject(t.name + " has no RFC 3339 form")
		}
	}
	var err error
	if !s.noPayload {
		e.Payload, err = s.arena.render(&s.payload, e.EncodedPayload)
	}
	field := "payload"
	if err == nil {
		field = "metadata"
		e.Metadata, err = s.arena.render(&s.metadata, e.EncodedMetadata)
	}
	var version *etf.VersionError
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &version):
		return nil, &exporter.PauseError{Reason: exporter.PausedUnknownVersion, Detail: fmt.Sprintf(
			"the %s of event %d (%s/%d) was written by another Docket version: %v; use an exporter that knows it, then resume", field, e.ID, e.RunID, e.Seq, err)}
	default:
		return reject(field + ": " + err.Error())
	}
}

// texts sets the text columns. They share one string per row.
func (s *Source) texts(e *exporter.Event, v [][]byte) {
	columns := [...]int{3, 5, 7, 8, 9, 10, 11, 12}
	s.scratch = s.scratch[:0]
	for _, c := range columns {
		s.scratch = append(s.scratch, v[c]...)
	}
	rest := string(s.scratch)
	next := func(c int) exporter.Text {
		text := exporter.Text{Value: rest[:len(v[c])], Present: v[c] != nil}
		rest = rest[len(v[c]):]
		return text
	}
	e.RunID, e.Type = next(3).Value, next(5).Value
	e.NodeID, e.ChannelID, e.TaskID = next(7), next(8), next(9)
	e.TenantID, e.GraphID, e.GraphHash = next(10), next(11), next(12)
}

// arena hands out pieces of large byte slices, so that a page costs a few
// allocations instead of several for each row. Pieces stay valid: the arena
// never reuses what it has handed out.
type arena struct{ free []byte }

const arenaChunk = 256 << 10

func (a *arena) reserve(n int) []byte {
	if cap(a.free)-len(a.free) < n {
		a.free = make([]byte, 0, max(n, arenaChunk))
	}
	return a.free[len(a.free):]
}

func (a *arena) keep(piece []byte) []byte {
	if n := len(a.free) + len(piece); n <= cap(a.free) {
		a.free = a.free[:n]
	}
	return slices.Clip(piece)
}

func (a *arena) copy(b []byte) []byte { return a.keep(append(a.reserve(len(b)), b...)) }

// render decodes src into the arena; JSON that outgrows the reserve moves to
// memory of its own.
func (a *arena) render(d *etf.Decoder, src []byte) ([]byte, error) {
	out, err := d.AppendJSON(a.reserve(2*len(src)+64), src)
	if err != nil {
		return nil, err
	}
	return a.keep(out), nil
}
