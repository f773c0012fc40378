package clickhouse_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sinks/clickhouse"
)

func Example() {
	sink, err := clickhouse.Open(clickhouse.Config{
		DSN:         "clickhouse://exporter:secret@ch1:9000,ch2:9000/analytics",
		CreateTable: true,
		TLS:         clickhouse.TLS{CAFile: "/etc/ch/ca.pem"},
		Log:         slog.Default(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sink.Close()
	err = sink.Deliver(context.Background(), exporter.Batch{Consumer: "analytics", Number: 1, Events: []exporter.Event{
		{ID: 7, RunID: "r1", Seq: 1, Type: "run_initialized"},
	}})
	fmt.Println(err)
}

func ExampleDDL() {
	first, _, _ := strings.Cut(clickhouse.DDL("analytics.docket_events", clickhouse.DDLOptions{Cluster: "main"}), "\n")
	fmt.Println(first)
	// Output: CREATE TABLE IF NOT EXISTS `analytics`.`docket_events` ON CLUSTER 'main'
}
