package webhook

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// BenchmarkDeliver sends 50 runs of 10 events to a receiver in this process
// that reads and answers at once; an operation is one event.
func BenchmarkDeliver(b *testing.B) {
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer receiver.Close()
	for _, concurrency := range []int{1, 10, 50} {
		b.Run(fmt.Sprint("concurrency=", concurrency), func(b *testing.B) {
			s, err := Open(Config{URL: receiver.URL, Secrets: []string{secret}, AllowPrivate: local, Concurrency: concurrency})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			batch := sinktest.Batch(1, 50, 10)
			b.ReportAllocs()
			for n := 0; n < b.N; n += len(batch.Events) {
				if err := s.Deliver(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
