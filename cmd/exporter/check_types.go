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

// checkTypes warns of a pattern of TYPES that selects no type we know: a
// mistyped one exports nothing and says nothing.
func checkTypes(c *ConsumerConfig, found *findings) {
	for _, pattern := range c.Types {
		if strings.HasPrefix(pattern, "!") || slices.ContainsFunc(knownTypes, func(t string) bool { return selects(pattern, t) }) {
			continue
		}
		hint := "Docket's types are " + strings.Join(knownTypes, ", ")
		if near := nearest(strings.TrimSuffix(pattern, "*"), knownTypes); near != "" {
			hint = "did you mean " + near + "?"
		}
		found.add(finding{
			Level: exporter.LevelWarn, Subject: consumerSubject(c.Name),
			Text: fmt.Sprintf("%q in %sTYPES matches no event type that this exporter knows", pattern, c.Prefix()), Hint: hint,
		})
	}
}

func selects(pattern, text string) bool {
	if prefix, open := strings.CutSuffix(pattern, "*"); open {
		return strings.HasPrefix(text, prefix)
	}
	return pattern == text
}
