package receiver_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/sinks/sinktest"
	"github.com/docket-exporter/exporter/sinks/webhook"
	"github.com/docket-exporter/exporter/sinks/webhook/receiver"
)

// BenchmarkEffects sends events over the sink to a receiver in this process
// whose effect is one row of PostgreSQL; an operation is one event.
func BenchmarkEffects(b *testing.B) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	for _, concurrency := range []int{10, 50} {
		b.Run(fmt.Sprint("concurrency=", concurrency), func(b *testing.B) {
			pool := pgtest.Pool(b, pgtest.Database(b)+fmt.Sprint("&pool_max_conns=", concurrency))
			pgtest.Exec(b, pool, receiver.Schema(receiver.DefaultTable)+"; CREATE TABLE effects (run_id text, seq bigint)")
			h, err := receiver.New(receiver.Config{Pool: pool, Secrets: []string{secret}, Effect: func(ctx context.Context, tx pgx.Tx, e receiver.Event) ([]byte, error) {
				_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1, $2)", e.RunID, e.Seq)
				return nil, err
			}})
			if err != nil {
				b.Fatal(err)
			}
			server := httptest.NewServer(h)
			defer server.Close()
			s, err := webhook.Open(webhook.Config{
				URL: server.URL, Secrets: []string{secret}, Concurrency: concurrency,
				AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			b.ResetTimer()
			for n := 0; n < b.N; n += 500 {
				if err := s.Deliver(b.Context(), sinktest.Batch(uint64(n), 50, 10)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
