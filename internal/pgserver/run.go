package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/docket-exporter/exporter/internal/subprocess"
)

// Mode is how a running server is asked to end.
type Mode string

const (
	// Fast ends all sessions, writes a checkpoint and ends.
	Fast Mode = "fast"
	// Immediate ends without a checkpoint; the next start recovers.
	Immediate Mode = "immediate"
)

// bindAttempts bounds how often a start is repeated because the port is taken.
const bindAttempts = 20

// errBind says that somebody else listens on the port.
var errBind = errors.New("port is in use")

// Start starts a cluster that is down and returns once it accepts connections.
// On a running one it does nothing.
func (c *Cluster) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil && !c.server.ended() {
		return nil
	}
	first := c.port == 0
	var err error
	for range bindAttempts {
		if first {
			if c.port, err = subprocess.FreePort(); err != nil {
				return err
			}
		}
		if err = c.launch(ctx); !errors.Is(err, errBind) {
			return err
		}
	}
	return err
}

// launch makes one try to start the server on the chosen port.
func (c *Cluster) launch(ctx context.Context) error {
	if err := c.writeSettings(); err != nil {
		return err
	}
	if err := c.openLog(); err != nil {
		return err
	}
	var log io.Writer = c.log
	if c.options.Log != nil {
		log = io.MultiWriter(c.log, c.options.Log)
	}
	server, err := startProcess(c.account, c.dir, filepath.Join(c.bindir, "postgres"), []string{"-D", c.dataDir()}, log)
	if err != nil {
		return errors.Join(err, c.log.Close())
	}
	c.server = server
	if err := c.awaitReady(ctx); err != nil {
		return errors.Join(err, c.kill())
	}
	return nil
}

// awaitReady returns when a connection to the server succeeds.
func (c *Cluster) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.server.done:
			tail := c.logTail()
			if strings.Contains(tail, "could not bind") || strings.Contains(tail, "could not create any TCP/IP sockets") {
				return fmt.Errorf("start PostgreSQL on port %d: %w", c.port, errBind)
			}
			return fmt.Errorf("start PostgreSQL: %w; its log %s ends with:\n%s", c.server.err, c.LogPath(), tail)
		case <-ctx.Done():
			return fmt.Errorf("await PostgreSQL: %w (last answer: %w); its log %s ends with:\n%s",
				ctx.Err(), err, c.LogPath(), c.logTail())
		case <-tick.C:
		}
	}
}

// ping connects and makes sure that our server answers, not another one that
// has taken the port.
func (c *Cluster) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // what matters was answered
	var dir string
	if err := conn.QueryRow(ctx, "SELECT current_setting('data_directory')").Scan(&dir); err != nil {
		return err
	}
	if dir != c.dataDir() {
		return fmt.Errorf("port %d answers for the data directory %s", c.port, dir)
	}
	return nil
}

// Stop shuts the server down and removes a temporary directory. It may be
// called again.
func (c *Cluster) Stop(ctx context.Context) error {
	return errors.Join(c.Shutdown(ctx, Fast), c.temporary.remove())
}

// Shutdown ends the server and keeps its data. When ctx ends first, the server
// is killed and ctx's error returned.
func (c *Cluster) Shutdown(ctx context.Context, mode Mode) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil {
		return nil
	}
	sig := syscall.SIGINT
	switch mode {
	case Fast:
	case Immediate:
		sig = syscall.SIGQUIT
	default:
		return fmt.Errorf("shut down PostgreSQL: mode %q is neither %q nor %q", mode, Fast, Immediate)
	}
	if err := c.server.signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if err := c.server.wait(ctx); err != nil {
		return errors.Join(fmt.Errorf("shut down PostgreSQL: %w", err), c.kill())
	}
	return c.ended()
}

// Restart shuts the server down and starts it again on the same port.
func (c *Cluster) Restart(ctx context.Context, mode Mode) error {
	if err := c.Shutdown(ctx, mode); err != nil {
		return err
	}
	return c.Start(ctx)
}

// Kill sends SIGKILL to the postmaster and all its children, as a power cut
// would end them. Start recovers the cluster.
func (c *Cluster) Kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kill()
}

func (c *Cluster) kill() error {
	if c.server == nil {
		return nil
	}
	if !c.server.ended() {
		if err := killTree(c.server.pid); err != nil {
			return err
		}
		<-c.server.done
	}
	return c.ended()
}

// ended forgets a server that has ended. What a killed one left behind is
// removed: its process number may be another program's by the next start.
func (c *Cluster) ended() error {
	c.server = nil
	removeSegment(filepath.Join(c.dataDir(), "postmaster.pid"))
	err := c.log.Close()
	for _, name := range []string{
		filepath.Join(c.dataDir(), "postmaster.pid"),
		filepath.Join(c.dir, ".s.PGSQL."+strconv.Itoa(c.port)+".lock"),
		filepath.Join(c.dir, ".s.PGSQL."+strconv.Itoa(c.port)),
	} {
		if rmErr := os.Remove(name); !errors.Is(rmErr, os.ErrNotExist) {
			err = errors.Join(err, rmErr)
		}
	}
	if err != nil {
		return fmt.Errorf("clear up after PostgreSQL: %w", err)
	}
	return nil
}

// Signal sends sig to the postmaster: SIGHUP reloads its settings, SIGSTOP and
// SIGCONT freeze and thaw it (not its children). A server that is down gives
// os.ErrProcessDone.
func (c *Cluster) Signal(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil {
		return os.ErrProcessDone
	}
	return c.server.signal(sig)
}
