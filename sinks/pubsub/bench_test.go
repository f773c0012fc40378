package pubsub

import (
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"

	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// BenchmarkDeliver publishes batches of 5,000 events to the library's own
// server in this process, so that the time is that of client and server.
func BenchmarkDeliver(b *testing.B) {
	for _, c := range []struct {
		name         string
		runs, perRun int
	}{{"10 runs", 10, 500}, {"500 runs", 500, 10}, {"5000 runs", 5000, 1}} {
		b.Run(c.name, func(b *testing.B) {
			server := pstest.NewServer()
			defer server.Close()
			b.Setenv("PUBSUB_EMULATOR_HOST", server.Addr)
			if _, err := server.GServer.CreateTopic(b.Context(), &pubsubpb.Topic{Name: name("bench")}); err != nil {
				b.Fatal(err)
			}
			s, err := Open(b.Context(), Config{Project: project, Topic: "bench"})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			batch := sinktest.Batch(1, c.runs, c.perRun)
			for b.Loop() {
				if err := s.Deliver(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				server.ClearMessages()
			}
			b.ReportMetric(float64(b.N*len(batch.Events))/b.Elapsed().Seconds(), "events/s")
		})
	}
}
