package clickhouse

import (
	"errors"
	"testing"
	"time"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// TestMemoryIsUsedAgain inserts batches of different sizes, one with an event
// that does not fit among them, by one sink and each by a sink of its own: the
// tables are the same.
func TestMemoryIsUsedAgain(t *testing.T) {
	for _, server := range servers() {
		t.Run(server.name, func(t *testing.T) {
			conn, together, apart := connect(t, server.dsn(server.address)), tableOf(t, "together"), tableOf(t, "apart")
			server.make(t, conn, together)
			server.make(t, conn, apart)
			one := open(t, Config{DSN: server.dsn(server.address), Table: together})
			rows := 0
			for i, size := range []int{3, 200, 1, 50} {
				b := sinktest.Batch(uint64(i+1), size, 7)
				b.Number = int64(i + 1)
				for j := range b.Events {
					if j%(i+2) == 0 { // absent, present and repeated texts in changing places
						b.Events[j].NodeID, b.Events[j].TenantID = exporter.Text{}, exporter.Text{Value: "t", Present: true}
					}
				}
				deliver(t, one, b)
				deliver(t, open(t, Config{DSN: server.dsn(server.address), Table: apart}), b)
				rows += len(b.Events)

				if i != 1 {
					continue
				}
				misfit := sinktest.Batch(uint64(i+100), 2, 2)
				misfit.Events[3].OccurredAt = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
				if err := one.Deliver(t.Context(), misfit); server.name == "new" {
					if rejected := (*exporter.RejectedError)(nil); !errors.As(err, &rejected) {
						t.Fatalf("got %v, want a rejection", err)
					}
				} else if err == nil { // its times are texts
					rows += len(misfit.Events)
					deliver(t, open(t, Config{DSN: server.dsn(server.address), Table: apart}), misfit)
				}
			}
			hash := "SELECT sum(cityHash64(run_id, seq, event_id, type, step, ifNull(node_id, '-'), ifNull(channel_id, '-'), ifNull(task_id, '-'), " +
				"ifNull(tenant_id, '-'), ifNull(graph_id, '-'), ifNull(graph_hash, '-'), payload, metadata, occurred_at, inserted_at)) FROM `"
			if a, b := number(t, conn, hash+together+"`"), number(t, conn, hash+apart+"`"); a != b {
				t.Errorf("the tables differ: %d and %d", a, b)
			}
			wantOnce(t, conn, together, server.final, rows)
		})
	}
}
