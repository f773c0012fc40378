package chserver_test

import (
	"context"
	"testing"

	"github.com/docket-exporter/exporter/internal/chserver"
)

func TestDataOutlivesAKill(t *testing.T) {
	s, err := chserver.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	exec(t, s, "CREATE TABLE kept (n UInt64) ENGINE = MergeTree ORDER BY n")
	exec(t, s, "INSERT INTO kept SELECT 1")
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var n uint64
	if err := conn.QueryRow(context.Background(), "SELECT sum(n) FROM kept").Scan(&n); err != nil || n != 1 {
		t.Errorf("sum %d, %v: want the row that was there before the kill", n, err)
	}
}

func exec(t *testing.T, s *chserver.Server, statement string) {
	t.Helper()
	conn, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
