package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docket-exporter/exporter/internal/docketsim"
)

const (
	hugeSchema  = "bench_huge"
	hugePayload = 5_000_000 // bytes
	hugeEvents  = 24
	crowd       = 6 // consumers of one process
	stoppedFor  = 10 * time.Second
	mostCrowd   = float64(256 << 20)
)

// measureMemory runs six consumers of events with 5 MB payloads in one process:
// once at work, and once with sinks that accept nothing, so that every consumer
// sits on a batch and tries again.
func measureMemory(ctx context.Context, b *bed, r *report) error {
	o := docketsim.LoadOptions{Age: time.Hour, PayloadBytes: hugePayload}
	if err := b.load(ctx, hugeSchema, hugeEvents, 12, o); err != nil {
		return err
	}
	e, err := b.newExport(ctx, hugeSchema)
	if err != nil {
		return err
	}
	u, err := runProcess(ctx, crowded(e), b.Exporter, "run", "--once")
	if err != nil {
		return err
	}
	if err := b.remove(ctx, e); err != nil {
		return err
	}
	name := fmt.Sprintf("peak RSS of %d consumers with 5 MB payloads", crowd)
	r.judge(name, mebibytes(float64(u.RSS)), "≤ "+mebibytes(mostCrowd), float64(u.RSS) <= mostCrowd)
	r.note("rate of them", "%.0f rows/s", perSecond(crowd*hugeEvents, u.Wall))

	stopped, err := b.stoppedCrowd(ctx)
	if err != nil {
		return err
	}
	r.judge(name+", sinks stopped", mebibytes(float64(stopped.RSS)), "≤ "+mebibytes(mostCrowd), float64(stopped.RSS) <= mostCrowd)
	return nil
}

// stoppedCrowd runs the consumers with a limit on the size of files, which no
// event fits into.
func (b *bed) stoppedCrowd(ctx context.Context) (u usage, err error) {
	e, err := b.newExport(ctx, hugeSchema)
	if err != nil {
		return u, err
	}
	p, err := startProcess(append(crowded(e), "PATH="+os.Getenv("PATH")), "prlimit", "--fsize=100000", b.Exporter, "run")
	if err != nil {
		return u, err
	}
	defer func() {
		var stopErr error
		u, stopErr = p.stop()
		err = errors.Join(err, stopErr, b.remove(context.WithoutCancel(ctx), e))
	}()
	if err := b.await(ctx, "SELECT count(intent_high) = $1 FROM "+e.schema+".consumers", crowd); err != nil {
		return u, err
	}
	return u, pause(ctx, stoppedFor)
}

// crowded are the variables of an export with the one consumer six times.
func crowded(e *export) []string {
	var env, names []string
	for _, entry := range e.env {
		if !strings.HasPrefix(entry, "EXPORTER_CONSUMERS=") && !strings.HasPrefix(entry, "CONSUMER_") {
			env = append(env, entry)
		}
	}
	for i := range crowd {
		name := fmt.Sprintf("crowd_%c", 'a'+i)
		dir := filepath.Join(e.dir, name)
		_ = os.Mkdir(dir, 0o755) // the exporter says what is wrong with it
		prefix := "CONSUMER_" + strings.ToUpper(name) + "_"
		names = append(names, name)
		env = append(env, prefix+"SINK=file", prefix+"FILE_DIR="+dir)
	}
	return append(env, "EXPORTER_CONSUMERS="+strings.Join(names, ","))
}
