package pubsub_test

import (
	"context"
	"fmt"
	"os"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/pubsub"
)

func Example() {
	ctx := context.Background()
	server := pstest.NewServer() // in place of the service
	defer server.Close()
	os.Setenv("PUBSUB_EMULATOR_HOST", server.Addr)
	defer os.Unsetenv("PUBSUB_EMULATOR_HOST")
	if _, err := server.GServer.CreateTopic(ctx, &pubsubpb.Topic{Name: "projects/docket-test/topics/events"}); err != nil {
		panic(err)
	}

	sink, err := pubsub.Open(ctx, pubsub.Config{Project: "docket-test", Topic: "events"})
	if err != nil {
		panic(err)
	}
	defer sink.Close()
	batch := exporter.Batch{Consumer: "feed", Number: 1, Events: []exporter.Event{
		{ID: 41, RunID: "run-1", Seq: 1, Type: "run_initialized"},
		{ID: 42, RunID: "run-1", Seq: 2, Type: "node_completed"},
	}}
	if err := sink.Deliver(ctx, batch); err != nil {
		panic(err) // the pipeline would try again
	}

	for _, m := range server.Messages() {
		fmt.Println(m.OrderingKey, m.Attributes["seq"], m.Attributes["type"])
	}
	// Output:
	// run-1 1 run_initialized
	// run-1 2 node_completed
}
