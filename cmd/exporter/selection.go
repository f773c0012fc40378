package main

import (
	"fmt"
	"strings"

	"github.com/docket-exporter/exporter/sources/docket"
)

// Start is where a new consumer begins.
type Start struct{ docket.Place }

// UnmarshalText reads a place in the events.
func (s *Start) UnmarshalText(text []byte) (err error) {
	s.Place, err = docket.ParsePlace(string(text))
	return err
}

// Patterns select texts. A pattern is exact, ends in * for any ending, and is
// preceded by ! to exclude. An empty list selects everything.
type Patterns []string

// UnmarshalText reads patterns separated by commas.
func (p *Patterns) UnmarshalText(text []byte) error {
	*p = nil
	for pattern := range strings.SplitSeq(string(text), ",") {
		pattern = strings.TrimSpace(pattern)
		body := strings.TrimPrefix(pattern, "!")
		switch {
		case body == "":
			return fmt.Errorf("%q holds an empty pattern; write texts separated by commas, such as node_*,!node_started", text)
		case strings.Contains(strings.TrimSuffix(body, "*"), "*"):
			return fmt.Errorf("%q has a * that is not at the end; only endings can be left open", pattern)
		case pattern == "!*":
			return fmt.Errorf("%q excludes everything; name what to leave out", pattern)
		case quoted(body):
			return fmt.Errorf("%s holds quotes, which would be part of the text; write it without them", pattern)
		}
		*p = append(*p, pattern)
	}
	return nil
}

// quoted reports quotes that a file of variables has kept: no shell took them.
func quoted(text string) bool { return strings.HasPrefix(text, `"`) || strings.HasPrefix(text, "'") }

// Payload says what of an event's payload is exported.
type Payload struct {
	Full bool
	Keys []string // top-level keys to keep when not Full; none keeps nothing
}

// UnmarshalText reads full, none, or key names separated by commas.
func (p *Payload) UnmarshalText(text []byte) error {
	*p = Payload{}
	switch strings.TrimSpace(string(text)) {
	case "full":
		p.Full = true
		return nil
	case "none":
		return nil
	}
	for key := range strings.SplitSeq(string(text), ",") {
		key = strings.TrimSpace(key)
		switch word := strings.ToLower(key); {
		case key == "":
			return fmt.Errorf("%q holds an empty key; write full, none, or keys separated by commas", text)
		case word == "full" || word == "none":
			return fmt.Errorf("%q is neither full nor none; write one of these words alone and in lower case, or keys separated by commas", text)
		case strings.Contains(key, "*"):
			return fmt.Errorf("%q holds a *, but keys are whole names; write full for all of them", text)
		case quoted(key):
			return fmt.Errorf("%s holds quotes, which would be part of the key; write it without them", text)
		}
		p.Keys = append(p.Keys, key)
	}
	return nil
}
