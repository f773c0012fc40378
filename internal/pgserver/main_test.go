package pgserver_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/docket-exporter/exporter/internal/pgserver"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	c, err := pgserver.Start(context.Background(), pgserver.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("127.0.0.1:%d %s\n", c.Port(), c.Dir())
	select {}
}
