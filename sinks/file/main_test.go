package file

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// childVariable makes the test binary one of the processes in children.
const childVariable = "FILE_SINK_TEST_CHILD"

// children are what a test lets run in a process of its own. They get the
// directory of the segments.
var children = map[string]func(dir string) error{
	"deliver for ever": deliverForEver,
	"small disk":       onSmallDisk,
	"size limit":       underSizeLimit,
}

func TestMain(m *testing.M) {
	if child := os.Getenv(childVariable); child != "" {
		if err := children[child](os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func child(t *testing.T, name, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), childVariable+"="+name)
	cmd.Stderr = t.Output()
	return cmd
}

// crashBatch is what the killed child delivers and the parent delivers again.
const (
	crashSeed   = 77
	crashRuns   = 400
	crashPerRun = 250
)

// deliverForEver delivers the crash batch in small writes, and does not stop
// by itself: an acceptance would leave nothing to be killed.
func deliverForEver(dir string) error {
	s, err := Open(Config{Dir: dir}, "feed")
	if err != nil {
		return err
	}
	s.chunk = 1
	if err := s.Deliver(context.Background(), sinktest.Batch(crashSeed, crashRuns, crashPerRun)); err != nil {
		return err
	}
	return fmt.Errorf("the batch was accepted before the kill came")
}
