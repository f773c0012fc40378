package etf

import (
	"encoding/binary"
	"math"
	"slices"
)

// Bounds that hold where a Decoder names no other.
const (
	// DefaultMaxDepth is far above what Docket nests and far below what a
	// goroutine's stack can take.
	DefaultMaxDepth = 1000
	// DefaultMaxBytes lets through what PostgreSQL can be expected to hold in
	// one row while one event cannot exhaust the process.
	DefaultMaxBytes = 256 << 20
)

// maxSource is PostgreSQL's own limit of one field; no row can exceed it.
const maxSource = 1 << 30

// Decoder renders Docket's durable event terms as JSON. The zero value uses the
// defaults. A Decoder may be used by several goroutines at once.
type Decoder struct {
	MaxDepth int      // deepest nesting of lists, tuples and maps, the event's own map being 1; 0 means DefaultMaxDepth
	MaxBytes int      // most bytes that one term may render to; 0 means DefaultMaxBytes
	Keys     []string // top-level keys to keep; nil keeps all; the others are validated all the same
}

// AppendJSON appends the JSON of the event in src to dst and returns the
// extended slice. The JSON is one value on one line. An error is a
// *SyntaxError or a *VersionError, and then dst is returned as it was given.
func (d *Decoder) AppendJSON(dst, src []byte) ([]byte, error) {
	if len(src) > maxSource {
		return dst, &SyntaxError{Offset: maxSource, Reason: "term is larger than 1 GiB"}
	}
	s := scanner{src: src, maxDepth: d.MaxDepth}
	if s.maxDepth <= 0 {
		s.maxDepth = DefaultMaxDepth
	}
	root, version, wrong := s.envelope()
	if version != nil {
		return dst, version
	}
	if wrong != nil {
		return dst, wrong
	}

	limit := d.MaxBytes
	if limit <= 0 {
		limit = DefaultMaxBytes
	}
	r := renderer{src: src, shapes: s.shapes, order: s.order, text: s.text, max: len(dst) + min(limit, math.MaxInt-len(dst))}
	var out []byte
	if d.Keys == nil {
		out, _ = r.term(dst, root)
	} else {
		// The event's own map was entered first and left last, so its keys are
		// what is left on the stack.
		entries := s.keys.from(0)
		slices.SortFunc(entries, func(a, b key) int { return int(a.at - b.at) })
		out = r.kept(dst, root, entries, d.Keys)
	}
	if r.over || len(out) > r.max {
		return dst, &SyntaxError{Offset: root, Reason: "event renders to more bytes than the limit allows"}
	}
	return out, nil
}

// usualEnvelope is how Docket's codec begins an event.
const usualEnvelope = "\x83h\x04w\x06docketa\x01w\x05event"

// envelope validates the whole of src and returns where the event's map starts.
func (s *scanner) envelope() (root int, version *VersionError, wrong *SyntaxError) {
	if root = len(usualEnvelope); len(s.src) > root && string(s.src[:root]) == usualEnvelope {
		return root, nil, s.event(root)
	}
	return s.anyEnvelope()
}

// anyEnvelope is envelope for the many other encodings of the same.
func (s *scanner) anyEnvelope() (root int, version *VersionError, wrong *SyntaxError) {
	if len(s.src) == 0 {
		return 0, nil, s.fail(0, "term is empty")
	}
	if s.src[0] != formatVersion {
		return 0, nil, s.fail(0, "not an external term (first byte is not 131)")
	}
	at, arity, wrong := s.envelopeTuple()
	if wrong != nil {
		return 0, nil, wrong
	}
	if at, wrong = s.named(at, arity > 0, "docket"); wrong != nil {
		return 0, nil, wrong
	}
	if version = s.otherVersion(at, arity); version != nil {
		return 0, version, nil
	}
	if arity != 4 {
		return 0, nil, s.fail(1, "envelope is not a tuple of four")
	}
	n, at, wrong := s.integer(at)
	if wrong != nil {
		return 0, nil, wrong
	}
	if n.mag != nil || n.small != 1 {
		return 0, nil, s.fail(at, "envelope has no codec version")
	}
	if root, wrong = s.named(at, true, "event"); wrong != nil {
		return 0, nil, wrong
	}
	return root, nil, s.event(root)
}

// envelopeTuple reads the head of the envelope.
func (s *scanner) envelopeTuple() (at, arity int, wrong *SyntaxError) {
	if len(s.src) < 2 {
		return 0, 0, s.truncated()
	}
	switch s.src[1] {
	case tagSmallTuple:
		if len(s.src) < 3 {
			return 0, 0, s.truncated()
		}
		return 3, int(s.src[2]), nil
	case tagLargeTuple:
		if len(s.src) < 6 {
			return 0, 0, s.truncated()
		}
		return 6, int(binary.BigEndian.Uint32(s.src[2:])), nil
	case tagCompressed:
		return 0, 0, s.fail(1, foreign(tagCompressed))
	}
	return 0, 0, s.fail(1, "envelope is not a tuple of four")
}

// named expects the atom name at the offset and returns where it ends.
func (s *scanner) named(at int, present bool, name string) (int, *SyntaxError) {
	if !present {
		return 0, s.fail(1, "envelope is not a tuple of four")
	}
	if at >= len(s.src) {
		return 0, s.truncated()
	}
	if !isAtom(s.src[at]) {
		return 0, s.fail(at, "envelope does not say "+name+" here")
	}
	a, wrong := s.atom(at)
	if wrong != nil {
		return 0, wrong
	}
	if string(a.text) != name {
		return 0, s.fail(at, "envelope does not say "+name+" here")
	}
	return a.end, nil
}

// otherVersion recognises {docket, N, Kind, …} with an N that is not 1. Such
// an envelope may differ in any other way, also in its arity.
func (s *scanner) otherVersion(at, arity int) *VersionError {
	if arity < 3 || at >= len(s.src) || !isInteger(s.src[at]) {
		return nil
	}
	n, end, wrong := s.integer(at)
	if wrong != nil || end >= len(s.src) || !isAtom(s.src[end]) || (n.mag == nil && n.small == 1) || len(n.mag) > 16 {
		return nil
	}
	if _, wrong := s.atom(end); wrong != nil {
		return nil
	}
	return &VersionError{Version: string(n.appendDecimal(nil)), Offset: at}
}

// event validates the event's map, which must be the last thing in src.
func (s *scanner) event(root int) *SyntaxError {
	if root >= len(s.src) {
		return s.truncated()
	}
	if s.src[root] != tagMap {
		return s.fail(root, "event is not a map")
	}
	end, t, wrong := s.mapTerm(root, 1, false)
	if wrong != nil {
		return wrong
	}
	if t&plainMap == 0 {
		return s.fail(root, "event is a struct, not a plain map")
	}
	if end != len(s.src) {
		return s.fail(end, "bytes follow the term")
	}
	slices.SortFunc(s.shapes, func(a, b shape) int { return int(a.at - b.at) })
	return nil
}
