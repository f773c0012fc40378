package docket

import (
	"errors"
	"fmt"
	"math"
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
func (s *Source) decode(e *exporter.Event, v [][]byte, a *arena) (*exporter.Rejection, error) {
	infinite := "" // the column that holds infinity, which no time.Time is
	e.ID, e.Seq, e.Step = int8At(v[0]), int8At(v[4]), int4At(v[6])
	s.texts(e, v)
	for _, t := range []struct {
		name string
		at   *time.Time
		v    []byte
	}{{"occurred_at", &e.OccurredAt, v[13]}, {"inserted_at", &e.InsertedAt, v[14]}} {
		if us := int8At(t.v); us != math.MaxInt64 && us != math.MinInt64 {
			*t.at = timeAt(t.v)
		} else {
			infinite = t.name
		}
	}
	e.EncodedPayload, e.EncodedMetadata = a.copy(v[15]), a.copy(v[16])

	reject := func(reason string) (*exporter.Rejection, error) {
		return &exporter.Rejection{Event: *e, Class: ClassUndecodable, Reason: reason}, nil
	}
	if infinite != "" {
		return reject(infinite + " is infinity or -infinity")
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
		e.Payload, err = a.render(&s.payload, e.EncodedPayload)
	}
	field := "payload"
	if err == nil {
		field = "metadata"
		e.Metadata, err = a.render(&s.metadata, e.EncodedMetadata)
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

// arena hands out pieces of large byte slices, so that a page costs no
// allocation for each row. Pieces stay valid until reset.
type arena struct {
	chunks [][]byte // the last one is being filled
	spare  [][]byte // emptied by reset
	shown  map[rendering][]byte
}

// rendering tells a small term and how it is rendered. The same few come again
// and again: an arena with a map of them renders each once.
type rendering struct {
	by   *etf.Decoder
	term string
}

const (
	smallTerm = 128  // bytes
	mostShown = 4096 // renderings that are kept
)

// An arena is made of chunks of this size; a larger piece has one of its own,
// which is let go at the next reset.
const arenaChunk = 256 << 10

// reset takes all pieces back.
func (a *arena) reset() {
	for _, c := range a.chunks {
		if cap(c) == arenaChunk {
			a.spare = append(a.spare, c[:0])
		}
	}
	a.chunks = a.chunks[:0]
}

// reserve returns an empty piece with room for n bytes; keep makes what was
// appended to it last.
func (a *arena) reserve(n int) []byte {
	if last := len(a.chunks) - 1; last >= 0 && cap(a.chunks[last])-len(a.chunks[last]) >= n {
		return a.chunks[last][len(a.chunks[last]):]
	}
	if last := len(a.spare) - 1; last >= 0 && n <= arenaChunk {
		c := a.spare[last]
		a.chunks, a.spare = append(a.chunks, c), a.spare[:last]
		return c
	}
	c := make([]byte, 0, max(n, arenaChunk))
	a.chunks = append(a.chunks, c)
	return c
}

func (a *arena) keep(piece []byte) []byte {
	last := len(a.chunks) - 1
	if n := len(a.chunks[last]) + len(piece); n <= cap(a.chunks[last]) {
		a.chunks[last] = a.chunks[last][:n]
	}
	return slices.Clip(piece)
}

func (a *arena) copy(b []byte) []byte { return a.keep(append(a.reserve(len(b)), b...)) }

// render decodes src into the arena; JSON that outgrows the reserve moves to
// memory of its own.
func (a *arena) render(d *etf.Decoder, src []byte) ([]byte, error) {
	keep := a.shown != nil && len(src) <= smallTerm
	if keep {
		if out, ok := a.shown[rendering{d, string(src)}]; ok {
			return out, nil
		}
	}
	out, err := d.AppendJSON(a.reserve(len(src)+len(src)/4+256), src)
	if err != nil {
		return nil, err
	}
	if keep {
		if len(a.shown) == mostShown {
			clear(a.shown)
		}
		a.shown[rendering{d, string(src)}] = slices.Clone(out)
	}
	return a.keep(out), nil
}
