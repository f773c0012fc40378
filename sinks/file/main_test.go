package file

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
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
	crashRuns   = 100
	crashPerRun = 200
)

// deliverForEver delivers the crash batch in small writes and stops after a
// quarter of them: it has to be killed in the middle.
func deliverForEver(dir string) error {
	s, err := Open(Config{Dir: dir}, "feed")
	if err != nil {
		return err
	}
	s.chunk = 1
	b := sinktest.Batch(crashSeed, crashRuns, crashPerRun)
	b.Resumed = true
	return s.Deliver(&callsAt{Context: context.Background(), look: len(b.Events) / 4, call: func() {
		for {
			_ = syscall.Pause() // returns at each of the runtime's own signals
		}
	}}, b)
}
