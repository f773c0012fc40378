package docketsim

import (
	"fmt"
	"maps"
)

// edge is a fired edge of a graph and the node it leads to.
type edge struct{ id, to string }

// finishEdge leads out of a graph.
var finishEdge = edge{"e_finish", "$finish"}

// chain runs n nodes one after the other.
func (t *teller) chain(n int) {
	t.graph(fmt.Sprintf("chain_%d", n))
	t.start([]string{"n"}, "e_start")
	for i := 1; i <= n; i++ {
		next := edge{fmt.Sprintf("e_%d", i), fmt.Sprintf("stage_%d", i+1)}
		if i == n {
			next = finishEdge
		}
		t.superstep([]string{fmt.Sprintf("stage_%d", i)}, []string{"result"}, []edge{next})
	}
	t.finish("result")
}

// fanOut runs one node, then width nodes at once, then one that joins them.
func (t *teller) fanOut(width int) {
	t.graph(fmt.Sprintf("fan_out_%d", width))
	t.start([]string{"label", "n"}, "e_start")
	branches, edges := make([]string, width), make([]edge, width)
	for i := range branches {
		branches[i] = fmt.Sprintf("branch_%d", i+1)
		edges[i] = edge{fmt.Sprintf("e_src_%d", i+1), branches[i]}
	}
	t.superstep([]string{"source"}, []string{"doc"}, edges)
	t.superstep(branches, []string{"first", "items", "total"}, []edge{{"e_join", "join"}})
	t.superstep([]string{"join"}, []string{"result"}, []edge{finishEdge})
	t.finish("first", "items", "result", "total")
}

// flaky fails a node some times, with a retry each, before it completes; its
// sibling's update is pending meanwhile. Some are cancelled while they wait.
func (t *teller) flaky(failures int) {
	t.graph(fmt.Sprintf("flaky_%d", failures))
	t.start(nil, "e_start_flaky", "e_start_sibling")
	for attempt := 1; attempt <= failures; attempt++ {
		t.retry(attempt)
	}
	if t.rng.IntN(5) == 0 {
		t.cancel()
		return
	}
	t.add("node_completed", event{node: "flaky", taskID: t.taskID("flaky")}, map[string]any{"attempt": failures + 1})
	t.add("node_completed", event{node: "sibling", taskID: t.taskID("sibling")}, map[string]any{"attempt": 1})
	t.add("channel_updated", event{channel: "state:out"}, map[string]any{"writers": []string{"flaky"}})
	t.add("edge_triggered", event{channel: "edge:" + finishEdge.id}, map[string]any{"edge_id": finishEdge.id, "to": finishEdge.to})
	attempts := []any{
		t.attempt("flaky", failures+1, "completed", nil),
		t.attempt("sibling", 1, "completed", nil),
	}
	t.step++
	t.commit(outcome{checkpointType: "step_committed", status: "running", wake: "continue", attempts: attempts})
	t.finish("out")
}

// broken fails a node for good.
func (t *teller) broken() {
	t.graph("broken")
	t.start([]string{"n"}, "e_start")
	reason := t.reason(1)
	t.add("node_failed", event{node: "charge", taskID: t.taskID("charge")},
		map[string]any{"attempt": 1, "reason": reason, "permanent": true})
	t.add("run_failed", event{node: "charge"}, map[string]any{
		"reason": "node_failed", "nodes": []string{"charge"}, "message": "node(s) charge failed permanently",
		"errors": map[string]any{"charge": reason},
	})
	t.commit(outcome{
		checkpointType: "run_failed", status: "failed", wake: "terminal", park: "run_failed",
		attempts: []any{t.attempt("charge", 1, "failed", nil)},
	})
}

// gate asks a person. The answer comes, or the run is cancelled, or it waits.
func (t *teller) gate() {
	t.graph("gate")
	t.start(nil, "e_start")
	interrupt := map[string]any{
		"interrupt_id": fmt.Sprintf("interrupt_%016x", t.rng.Uint64()), "resume_channel": "decision",
	}
	asked := maps.Clone(interrupt)
	asked["attempt"] = 1
	t.add("interrupt_requested", event{node: "gate", taskID: t.taskID("gate")}, asked)
	attempts := []any{t.attempt("gate", 1, "interrupted", nil)}
	t.step++
	t.commit(outcome{
		checkpointType: "interrupt_requested", status: "waiting", wake: "external",
		park: "awaiting_interrupts", attempts: attempts,
	})
	switch p := t.rng.IntN(100); {
	case p < 15:
		return
	case p < 40:
		t.cancel()
		return
	}
	t.add("interrupt_resolved", event{node: "gate"}, interrupt)
	t.add("channel_updated", event{channel: "state:decision"}, map[string]any{"writers": []string{"gate"}})
	t.commit(outcome{
		checkpointType: "interrupt_resolved", status: "running", wake: "immediate",
		park: "interrupt_resolved", outside: true,
	})
	t.superstep([]string{"gate"}, []string{"applied"}, []edge{finishEdge})
	t.finish("applied")
}

// loop goes in circles until the limit on supersteps fails it.
func (t *teller) loop(limit int) {
	t.graph("loop")
	t.start(nil, "e_start")
	for range limit {
		t.superstep([]string{"count"}, []string{"count"}, []edge{{"e_again", "count"}})
	}
	t.add("run_failed", event{}, map[string]any{
		"reason": "max_supersteps_exceeded", "limit": limit,
		"message": fmt.Sprintf("run exceeded the superstep limit of %d", limit),
	})
	t.commit(outcome{checkpointType: "run_failed", status: "failed", wake: "terminal", park: "run_failed"})
}

// cancelledEarly is cancelled before its first node ended.
func (t *teller) cancelledEarly() {
	t.graph("sleeper")
	t.start(nil, "e_start")
	t.cancel()
}
