package webhook_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/webhook"
)

func Example() {
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Header.Get("X-Docket-Run-Id"), r.Header.Get("X-Docket-Event-Type"))
	}))
	defer receiver.Close()
	sink, err := webhook.Open(webhook.Config{
		URL:          receiver.URL,
		Secrets:      []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sink.Close()
	at := time.Date(2026, 11, 29, 8, 0, 0, 0, time.UTC)
	event := exporter.Event{ID: 1, RunID: "order 7", Seq: 1, Type: "run_initialized", OccurredAt: at, InsertedAt: at}
	fmt.Println(sink.Deliver(context.Background(), exporter.Batch{Number: 1, Attempt: 1, Events: []exporter.Event{event}}))
	// Output:
	// order%207 run_initialized
	// <nil>
}
