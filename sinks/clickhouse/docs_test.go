package clickhouse

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// TestDocumentedStatements runs the statements of the sink's page: the table is
// the default one, and every query works on it.
func TestDocumentedStatements(t *testing.T) {
	page, err := os.ReadFile("../../docs/sinks/clickhouse.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 8 {
		t.Fatalf("%d statements are documented", len(blocks))
	}
	if got, want := blocks[0][1], DDL("docket_events", DDLOptions{}); got != want {
		t.Errorf("the documented table is\n%s\nnot\n%s", got, want)
	}
	if got, want := blocks[1][1], DDL("docket_events", DDLOptions{Cluster: "main"}); got != want {
		t.Errorf("the documented table of a cluster is\n%s\nnot\n%s", got, want)
	}
	conn := connect(t, newServer.DSN())
	table := tableOf(t, "docket_events")
	deliver(t, open(t, Config{DSN: newServer.DSN(), Table: table, CreateTable: true}), sinktest.Batch(1, 5, 20))
	for _, block := range blocks[2:] {
		statement := strings.ReplaceAll(block[1], "docket_events", "`"+table+"`")
		if strings.Contains(statement, "ON CLUSTER") {
			continue // needs one
		}
		rows, err := conn.Query(t.Context(), statement)
		if err != nil {
			t.Errorf("%s\n%v", statement, err)
			continue
		}
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}
}
