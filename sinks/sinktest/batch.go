package sinktest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/docket-exporter/exporter"
)

// Batch makes a batch like Docket's: runs that progressed at the same time, so
// that their ids interleave, each with seq 1, 2, 3…, sorted as a sink gets it.
// The same seed makes the same batch; batches of different seeds share neither
// a run nor an id.
func Batch(seed uint64, runs, eventsPerRun int) exporter.Batch {
	rng := rand.New(rand.NewPCG(seed, 0))
	b := exporter.Batch{UID: "sinktest", Number: 1, Attempt: 1, Rows: runs * eventsPerRun}
	first := int64(seed)*10_000_000 + 1
	at := time.Date(2026, 11, 29, 10, 11, 12, 0, time.UTC)
	for i := range runs * eventsPerRun {
		run := fmt.Sprintf("run-%d-%06d", seed, i%runs)
		at = at.Add(time.Duration(rng.IntN(2000)) * time.Microsecond)
		b.Events = append(b.Events, event(rng, first+int64(i), run, int64(i/runs+1), at))
	}
	b.From, b.To = exporter.Position{High: first - 1}, exporter.Position{High: first - 1 + int64(len(b.Events))}
	b.Sort(nil)
	return b
}

func event(rng *rand.Rand, id int64, run string, seq int64, at time.Time) exporter.Event {
	e := exporter.Event{
		ID: id, RunID: run, Seq: seq, Type: "node_completed", Step: int32(seq / 4),
		NodeID:     some(fmt.Sprintf("node_%d", rng.IntN(10))),
		TaskID:     some(fmt.Sprintf("%s:%d:node", run, seq/4)),
		TenantID:   some(fmt.Sprintf("tenant-%d", rng.IntN(5))),
		GraphID:    some("crawler"),
		GraphHash:  some("9f86d081884c7d659a2feaa0c55ad015"),
		OccurredAt: at, InsertedAt: at.Add(time.Millisecond),
		Payload: fmt.Appendf(nil, `{"attempt":%d}`, 1+rng.IntN(3)), Metadata: []byte(`{}`),
	}
	switch rng.IntN(4) {
	case 0:
		e.Type, e.NodeID, e.TaskID = "checkpoint_committed", exporter.Text{}, exporter.Text{}
		e.Payload = []byte(`{}`)
		e.Metadata = fmt.Appendf(nil, `{"checkpoint_seq":%d,"checkpoint_type":"step_committed","graph_step":%d,`+
			`"park_reason":null,"wake_disposition":"continue","node_attempts":[{"node_id":"node","attempted":1}]}`, seq, e.Step)
	case 1:
		e.Type, e.NodeID, e.TaskID = "channel_updated", exporter.Text{}, exporter.Text{}
		e.ChannelID = some("state:page")
		e.Payload = []byte(`{"writers":["node_1","node_2"]}`)
	}
	return e
}

func some(s string) exporter.Text { return exporter.Text{Value: s, Present: true} }
