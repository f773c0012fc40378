package etf

import "strings"

const elixir = "Elixir."

// docketFields names the fields of the structs that Docket's codec knows, as in
// its releases 0.1 to 0.3 (lib/docket in its sources), without __struct__.
var docketFields = map[string]string{
	"Elixir.Docket.Graph":              "description diagnostics edges fields id inputs metadata name nodes outputs policies schema_version",
	"Elixir.Docket.Graph.Edge":         "description from guard id label metadata source_handle target_handle to",
	"Elixir.Docket.Graph.Field":        "default description id kind label metadata reducer required schema",
	"Elixir.Docket.Graph.Node":         "branches config description id implementation label metadata policies",
	"Elixir.Docket.Graph.Output":       "description id label metadata schema source",
	"Elixir.Docket.Guard":              "args op",
	"Elixir.Docket.Interrupt":          "id metadata node_id resume_channel schema",
	"Elixir.Docket.Reducer":            "opts type",
	"Elixir.Docket.Run.ChannelState":   "barrier_seen channel_id value version",
	"Elixir.Docket.Run.Failure":        "code details message node_id",
	"Elixir.Docket.Run.InterruptState": "created_at id metadata node_id resolved_at resume_channel schema status",
	"Elixir.Docket.Run.PendingWrite":   "attempt kind node_id task_id value",
	"Elixir.Docket.Run.TaskState":      "attempt deadline_at failures idempotency_key input_hash metadata node_id snapshot source_versions started_at status step task_id",
	"Elixir.Docket.Run.TimerState":     "fires_at kind",
	"Elixir.Docket.Schema":             "constraints default fields item metadata required type values",
}

// closeStruct validates a map that has the key __struct__.
func (s *scanner) closeStruct(m *openMap, keys []key) (traits, *SyntaxError) {
	if !isAtom(s.src[m.module]) {
		return 0, s.fail(m.module, "struct has no module")
	}
	var t traits
	sh := shape{at: int32(m.at), end: int32(m.end)}
	switch module := string(atomAt(s.src, m.module).text); module {
	case "Elixir.DateTime":
		sh.kind = dateTime
		start := len(s.text)
		if reason := s.dateTime(keys); reason != "" {
			return 0, s.fail(m.at, reason)
		}
		sh.first, sh.n = int32(start), int32(len(s.text)-start)
	case "Elixir.MapSet":
		sh.kind = mapSet
		members, wrong := s.mapSet(m, keys)
		if wrong != nil {
			return 0, wrong
		}
		sh.first = members
	default:
		fields, known := docketFields[module]
		if !known {
			return 0, s.fail(m.module, "struct is not one of Docket's")
		}
		if !s.exactly(keys, fields) {
			return 0, s.fail(m.at, "struct has other fields than Docket's "+strings.TrimPrefix(module, elixir))
		}
		sh.kind, sh.first, t = docketStruct, int32(m.module), openAtom
	}
	s.shapes = append(s.shapes, sh)
	return t, nil
}

// mapSet validates a MapSet and returns where its inner map is. Elixir before
// 1.17 writes a version beside the map.
func (s *scanner) mapSet(m *openMap, keys []key) (int32, *SyntaxError) {
	const members = plainMap | nilValues
	inner := s.field(keys, "map")
	if inner == nil || !s.exactly(keys, "map") && !(s.exactly(keys, "map version") && s.smallField(keys, "version", 2, 2)) {
		return 0, s.fail(m.at, "malformed MapSet")
	}
	if inner.value&members != members {
		return 0, s.fail(int(inner.end), "malformed MapSet")
	}
	if inner.value&openAtom != 0 {
		return 0, s.fail(int(inner.end), "MapSet holds atoms other than true, false and nil")
	}
	return inner.end, nil
}

// exactly reports whether the keys are __struct__ and these fields.
func (s *scanner) exactly(keys []key, fields string) bool {
	n := 1
	for name := range strings.SplitSeq(fields, " ") {
		if n++; s.field(keys, name) == nil {
			return false
		}
	}
	return n == len(keys)
}

// field returns the entry of a struct's field, or nil.
func (s *scanner) field(keys []key, name string) *key {
	for i := range min(len(keys), 16) { // no struct has more fields
		if k := &keys[i]; k.class == classAtom && string(s.src[k.from:k.end]) == name {
			return k
		}
	}
	return nil
}
