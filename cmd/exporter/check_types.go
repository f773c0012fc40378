package main

import (
	"fmt"
	"slices"
	"strings"

	exporter "github.com/docket-exporter/exporter"
)

// knownTypes are the event types of the Docket versions we know. Another
// version may have more, so a pattern that matches none is only suspicious.
var knownTypes = []string{
	"run_initialized", "run_completed", "run_cancelled", "run_failed",
	"node_completed", "node_failed", "node_detached",
	"interrupt_requested", "interrupt_resolved",
	"channel_updated", "edge_triggered", "checkpoint_committed",
}

// checkTypes warns of patterns of TYPES that select nothing.
func checkTypes(c *ConsumerConfig, found *findings) {
	found.take(consumerSubject(c.Name), unknownTypes(c.Types, c.Prefix()+"TYPES"))
}

// unknownTypes tells of each pattern that selects no type we know: a mistyped
// one exports nothing and says nothing. where names the variable or flag.
func unknownTypes(patterns Patterns, where string) (told []exporter.Finding) {
	for _, pattern := range patterns {
		if strings.HasPrefix(pattern, "!") || slices.ContainsFunc(knownTypes, func(t string) bool { return selects(pattern, t) }) {
			continue
		}
		hint := "Docket's types are " + strings.Join(knownTypes, ", ")
		if near := nearest(strings.TrimSuffix(pattern, "*"), knownTypes); near != "" {
			hint = "did you mean " + near + "?"
		}
		told = append(told, exporter.Finding{
			Level: exporter.LevelWarn, Text: fmt.Sprintf("%q in %s matches no event type that this exporter knows", pattern, where), Hint: hint,
		})
	}
	return told
}

func selects(pattern, text string) bool {
	if prefix, open := strings.CutSuffix(pattern, "*"); open {
		return strings.HasPrefix(text, prefix)
	}
	return pattern == text
}
