package etf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// kind is what a map becomes.
type kind uint8

const (
	object       kind = iota // {"key":value}
	pairs                    // {"$map":[[key,value]]}
	dateTime                 // "2026-07-29T12:34:56Z"
	mapSet                   // {"$set":[…]}
	docketStruct             // {"$struct":"Docket.Schema",…}
)

// shape is what the first pass remembers of a map for the second; a map without
// one is an object.
type shape struct {
	at, end int32 // the map's bytes
	kind    kind
	// Of a dateTime: its text, text[first:first+n]. Of a mapSet: first is where
	// its inner map is. Of a docketStruct: first is where its
	// module is. Of an object or pairs with n > 0: the map may be inside
	// a MapSet, and order[first:first+n] holds its keys' offsets in term order.
	first, n int32
}

// mapTerm validates a map, settles its kind, and returns where it ends.
func (s *scanner) mapTerm(at, depth int, keyed bool) (int, traits, *SyntaxError) {
	if at+5 > len(s.src) {
		return 0, 0, s.truncated()
	}
	n, pos := int(binary.BigEndian.Uint32(s.src[at+1:])), at+5
	if wrong := s.enter(at, depth, 2*n, len(s.src)-pos); wrong != nil {
		return 0, 0, wrong
	}
	m := openMap{at: at, base: s.keys.n, canon: len(s.canon), sorted: true, text: true, traits: plainMap | nilValues}
	for range n {
		var wrong *SyntaxError
		if pos, wrong = s.entry(&m, pos, depth, keyed); wrong != nil {
			return 0, 0, wrong
		}
	}
	m.end = pos
	t, wrong := s.closeMap(&m)
	if wrong != nil {
		return 0, 0, wrong
	}
	if keyed {
		s.sealMap(s.keys.from(m.base), m.canon)
	} else {
		s.canon = s.canon[:m.canon]
	}
	if depth > 1 { // the event's own keys are kept for the projection
		s.keys.n = m.base
	}
	return pos, t, nil
}

// openMap is a map while its entries are read.
type openMap struct {
	at, end        int
	base           int // of its keys in scanner.keys
	canon          int // of its part of scanner.canon
	module         int // where the value of __struct__ is, 0: no struct
	sorted         bool
	text           bool // all keys are text that an object may have
	atoms, strings bool // which kinds of text occur
	traits         traits
}

// entry validates a key and its value.
func (s *scanner) entry(m *openMap, pos, depth int, keyed bool) (int, *SyntaxError) {
	k, t, wrong := s.key(pos, depth, keyed)
	if wrong != nil {
		return 0, wrong
	}
	m.see(s, &k)
	end, vt, wrong := s.term(int(k.end), depth+1, keyed)
	if wrong != nil {
		return 0, wrong
	}
	k.value, k.canonEnd = vt, len(s.canon)
	if m.sorted && s.keys.n > m.base {
		m.sorted = s.compare(&s.keys.from(m.base)[s.keys.n-1-m.base], &k) < 0
	}
	s.keys.push(k)
	m.traits |= (t | vt) & openAtom
	if vt&emptyList == 0 {
		m.traits &^= nilValues
	}
	return end, nil
}

// see notes what a key means for the kind of its map.
func (m *openMap) see(s *scanner, k *key) {
	text := s.src[k.from:k.end]
	switch k.class {
	case classAtom:
		m.atoms = true
		if string(text) == "__struct__" {
			m.module = int(k.end)
		}
	case classBinary:
		m.strings = true
		if !plain(text) && !utf8.Valid(text) {
			m.text = false
		}
	default:
		m.text = false
		return
	}
	if len(text) > 0 && text[0] == '$' {
		m.text = false
	}
}

// closeMap refuses duplicate keys and records the map's shape if it has one.
func (s *scanner) closeMap(m *openMap) (traits, *SyntaxError) {
	keys := s.keys.from(m.base)
	var order []key
	if !m.sorted {
		if m.traits&nilValues != 0 {
			order = slices.Clone(keys)
		}
		slices.SortFunc(keys, func(a, b key) int { return s.compare(&a, &b) })
		for i := 1; i < len(keys); i++ {
			if s.compare(&keys[i-1], &keys[i]) == 0 {
				return 0, s.fail(int(max(keys[i-1].at, keys[i].at)), "map has this key twice")
			}
		}
	}
	if m.module != 0 {
		return s.closeStruct(m, keys)
	}
	sh := shape{at: int32(m.at), end: int32(m.end)}
	if !m.text || m.atoms && m.strings && s.collide(keys) {
		sh.kind = pairs
	}
	if order != nil {
		sh.first, sh.n = int32(len(s.order)), int32(len(order))
		s.appendOrder(order)
	}
	if sh.kind != object || sh.n > 0 {
		s.shapes = append(s.shapes, sh)
	}
	return m.traits, nil
}

// appendOrder records keys in term order. Among lists, tuples and maps of the
// same size their encoded order stays, which is term order where Docket wrote
// them.
func (s *scanner) appendOrder(keys []key) {
	slices.SortFunc(keys, func(a, b key) int { return cmp.Or(s.compareLoosely(&a, &b), cmp.Compare(a.at, b.at)) })
	for _, k := range keys {
		s.order = append(s.order, k.at)
	}
}

// collide reports whether an atom and a binary among sorted text keys are the
// same text.
func (s *scanner) collide(keys []key) bool {
	first := slices.IndexFunc(keys, func(k key) bool { return k.class == classBinary })
	atoms, strings := keys[:first], keys[first:]
	for len(atoms) > 0 && len(strings) > 0 {
		c := bytes.Compare(s.keyText(&atoms[0]), s.keyText(&strings[0]))
		if c == 0 {
			return true
		}
		if c < 0 {
			atoms = atoms[1:]
		} else {
			strings = strings[1:]
		}
	}
	return false
}
