package docketsim

import "fmt"

// start commits a run's first transition.
func (t *teller) start(inputs []string, edges ...string) {
	t.add("run_initialized", event{}, map[string]any{"inputs": inputs})
	for _, input := range inputs {
		t.add("channel_updated", event{channel: "input:" + input}, map[string]any{"version": 1})
	}
	for _, id := range edges {
		t.add("edge_triggered", event{channel: "edge:" + id}, map[string]any{"edge_id": id})
	}
	t.commit(outcome{checkpointType: "run_initialized", status: "running", wake: "continue"})
}

// superstep commits nodes that completed at their first attempt, each of which
// wrote the fields.
func (t *teller) superstep(nodes, fields []string, edges []edge) {
	attempts := make([]any, len(nodes))
	for i, node := range nodes {
		t.add("node_completed", event{node: node, taskID: t.taskID(node)}, map[string]any{"attempt": 1})
		attempts[i] = t.attempt(node, 1, "completed", nil)
	}
	for _, field := range fields {
		t.add("channel_updated", event{channel: "state:" + field}, map[string]any{"writers": nodes})
	}
	for _, e := range edges {
		t.add("edge_triggered", event{channel: "edge:" + e.id}, map[string]any{"edge_id": e.id, "to": e.to})
	}
	t.step++ // the checkpoint carries the step after the commit
	t.commit(outcome{checkpointType: "step_committed", status: "running", wake: "continue", attempts: attempts})
}

// finish commits the run's completion.
func (t *teller) finish(outputs ...string) {
	t.add("run_completed", event{}, map[string]any{"outputs": outputs})
	t.commit(outcome{checkpointType: "run_completed", status: "done", wake: "terminal", park: "run_completed"})
}

// cancel commits the run's cancellation, which comes from outside.
func (t *teller) cancel() {
	t.add("run_cancelled", event{}, nil)
	t.commit(outcome{
		checkpointType: "run_cancelled", status: "cancelled", wake: "terminal", park: "run_cancelled", outside: true,
	})
}

// retry commits a failed attempt of the node "flaky" that is to be repeated.
func (t *teller) retry(attempt int) {
	task, sibling := t.taskID("flaky"), t.taskID("sibling")
	t.add("node_failed", event{node: "flaky", taskID: task},
		map[string]any{"attempt": attempt, "reason": t.reason(attempt), "permanent": false})
	attempts := []any{t.attempt("flaky", attempt, "failed", attempt+1)}
	if attempt == 1 {
		attempts = append(attempts, t.attempt("sibling", 1, "pending_update", nil))
	}
	t.commit(outcome{
		checkpointType: "retry_scheduled", status: "running", wake: "at", park: "retry_backoff", attempts: attempts,
		active: map[string]any{
			"graph_step": t.step,
			"tasks": []any{map[string]any{
				"task_id": task, "node_id": "flaky", "scheduled_attempt": attempt + 1,
				"idempotency_key": fmt.Sprintf("%s:%d", task, attempt+1),
			}},
			"pending_attempts": []any{map[string]any{
				"task_id": sibling, "node_id": "sibling", "attempted": 1, "kind": "update",
				"idempotency_key": sibling + ":1",
			}},
		},
	})
}

// attempt is one entry of a checkpoint's node_attempts.
func (t *teller) attempt(node string, attempted int, result string, next any) map[string]any {
	return map[string]any{
		"task_id": t.taskID(node), "node_id": node, "attempted": attempted, "outcome": result,
		"next_scheduled_attempt": next,
	}
}

// reason is what a node died of, as Elixir prints terms: short, with quotes and
// other scripts, or a stack trace.
func (t *teller) reason(attempt int) string {
	switch t.rng.IntN(4) {
	case 0:
		return ":timeout"
	case 1:
		return fmt.Sprintf(`"HTTP 503 сервис недоступен (attempt %d) \"quoted\" \\ 🚧"`, attempt)
	case 2:
		return "{:exited, {:shutdown, :upstream_gone}}"
	default:
		return fmt.Sprintf(`{:raised, %%DBConnection.ConnectionError{message: "connection not available ✗ attempt %d", `+
			`severity: :error, reason: :queue_timeout}, [{Shop.Orders, :reserve, 2, [file: ~c"lib/shop/orders.ex", line: 117]}, `+
			`{Shop.Nodes.Charge, :call, 3, [file: ~c"lib/shop/nodes/charge.ex", line: 41]}, `+
			`{Task.Supervised, :invoke_mfa, 2, [file: ~c"lib/task/supervised.ex", line: 101]}, `+
			`{Task.Supervised, :reply, 4, [file: ~c"lib/task/supervised.ex", line: 36]}]}`, attempt)
	}
}
