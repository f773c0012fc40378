package docketsim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
)

// script is a run told in advance: what each of its transitions commits.
type script struct {
	runID, tenant, graphID, graphHash string // tenant "" is NULL
	transitions                       []transition
}

// transition is what one transaction commits. The last event is its
// checkpoint_committed.
type transition struct {
	events         []event
	status         string // of the run, afterwards
	step           int
	checkpoint     int64
	checkpointType string
	wake           string // wake_disposition
	outside        bool   // made by a caller, not by the worker that holds the run
}

// event is a row of docket_events without its id and times. Empty text in the
// three ids is NULL.
type event struct {
	seq                   int64
	step                  int
	kind                  string
	node, channel, taskID string
	payload, metadata     []byte
}

func (s *script) events() int {
	n := 0
	for _, t := range s.transitions {
		n += len(t.events)
	}
	return n
}

// tenants are owners as applications name them: none for two runs of five.
var tenants = []string{"", "", "acme", "globex:eu", "株式会社 例"}

// teller builds a script transition by transition.
type teller struct {
	script
	rng        *rand.Rand
	seq        int64
	checkpoint int64
	step       int
	open       []event // of the transition not yet committed
}

var emptyMap = EncodeEvent(nil)

// tell writes the script of a random run: mostly chains and fan-outs, some with
// retries, failures, interrupts and cancellations.
func tell(rng *rand.Rand) *script {
	t := newTeller(rng)
	switch p := rng.IntN(100); {
	case p < 10:
		t.chain(1)
	case p < 45:
		t.chain(3)
	case p < 60:
		t.chain(10)
	case p < 78:
		t.fanOut(3 + rng.IntN(6))
	case p < 84:
		t.flaky(1 + rng.IntN(2))
	case p < 88:
		t.broken()
	case p < 97:
		t.gate()
	case p < 98:
		t.loop(12)
	default:
		t.cancelledEarly()
	}
	return &t.script
}

// tellStart writes the script of a run that has only just started, with
// exactly n ≥ 3 events.
func tellStart(rng *rand.Rand, n int) *script {
	t := newTeller(rng)
	t.graph("intake")
	inputs := make([]string, n-3)
	for i := range inputs {
		inputs[i] = fmt.Sprintf("field_%03d", i)
	}
	t.start(inputs, "e_start")
	return &t.script
}

// newTeller takes the run's id from no seed: it must be new also when the same
// seed writes to the same table again.
func newTeller(rng *rand.Rand) *teller {
	t := &teller{rng: rng}
	t.runID = fmt.Sprintf("run_%016x", rand.Uint64())
	t.tenant = tenants[rng.IntN(len(tenants))]
	return t
}

// graph names the run's graph; the hash stands for its one published version.
func (t *teller) graph(id string) {
	sum := sha256.Sum256([]byte("graph " + id))
	t.graphID, t.graphHash = id, hex.EncodeToString(sum[:])
}

// add appends an event at the current step.
func (t *teller) add(kind string, at event, payload map[string]any) {
	t.seq++
	at.kind, at.seq, at.step = kind, t.seq, t.step
	at.payload, at.metadata = emptyMap, emptyMap
	if len(payload) > 0 {
		at.payload = EncodeEvent(payload)
	}
	t.open = append(t.open, at)
}

// outcome is what a transition leaves behind.
type outcome struct {
	checkpointType, status, wake string
	park                         any // string or nil
	attempts                     []any
	active                       any // the superstep that goes on, or nil
	outside                      bool
}

// commit ends the transition with its checkpoint_committed.
func (t *teller) commit(o outcome) {
	t.checkpoint++
	t.add("checkpoint_committed", event{}, nil)
	t.open[len(t.open)-1].metadata = EncodeEvent(map[string]any{
		"active_superstep": o.active,
		"checkpoint_seq":   t.checkpoint,
		"checkpoint_type":  o.checkpointType,
		"graph_step":       t.step,
		"node_attempts":    o.attempts,
		"park_reason":      o.park,
		"wake_disposition": o.wake,
	})
	t.transitions = append(t.transitions, transition{
		events: t.open, status: o.status, step: t.step, checkpoint: t.checkpoint,
		checkpointType: o.checkpointType, wake: o.wake, outside: o.outside,
	})
	t.open = nil
}

func (t *teller) taskID(node string) string {
	return fmt.Sprintf("%s:%d:%s", t.runID, t.step, node)
}
