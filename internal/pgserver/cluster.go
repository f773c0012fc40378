package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// superuser is the role that initdb creates and URL names.
const superuser = "postgres"

// maxSocketPath is the longest path of a Unix socket (sun_path, without its
// terminating zero).
const maxSocketPath = 107

// Options say how a cluster is made. The zero value is a fast, temporary one.
type Options struct {
	// Dir holds the data, the log and the Unix socket. Empty: a temporary
	// directory that Stop removes. A Dir used before is started as it is.
	Dir string
	// Settings are postgresql.conf parameters by name.
	Settings map[string]string
	// Durable keeps fsync and full_page_writes on. Without it a crash of the
	// machine (not of the server) may corrupt the data.
	Durable bool
	// Log also receives what the server logs. nil: only the file does.
	Log io.Writer
}

// Cluster is a private PostgreSQL server with its data. Its methods may be
// called from several goroutines.
type Cluster struct {
	options   Options
	bindir    string
	dir       string
	temporary *temporaryDir // nil when Options.Dir was given
	account   account
	port      int

	mu       sync.Mutex // serializes starting and stopping
	server   *process   // nil while down
	log      *os.File
	logStart int64 // where the log of this start begins
}

// Start creates a cluster and returns once it accepts connections. An error
// carries the end of the server's log.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c, err := prepare(o)
	if err != nil {
		return nil, err
	}
	if err := c.initialize(ctx); err != nil {
		return nil, errors.Join(err, c.temporary.remove())
	}
	if err := c.Start(ctx); err != nil {
		return nil, errors.Join(err, c.temporary.remove())
	}
	return c, nil
}

// prepare makes the cluster's directory.
func prepare(o Options) (*Cluster, error) {
	bindir, err := Find()
	if err != nil {
		return nil, err
	}
	as, err := serverAccount()
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: o, bindir: bindir, account: as, dir: o.Dir}
	if o.Dir == "" {
		if c.temporary, err = newTemporaryDir(as); err != nil {
			return nil, err
		}
		c.dir = c.temporary.path
	}
	if c.dir, err = filepath.Abs(c.dir); err != nil {
		return nil, fmt.Errorf("resolve server directory: %w", err)
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make server directory: %w", err)
	}
	if err := as.reaches(c.dir); err != nil {
		return nil, errors.Join(err, c.temporary.remove())
	}
	if err := as.own(c.dir); err != nil {
		return nil, errors.Join(fmt.Errorf("hand over server directory: %w", err), c.temporary.remove())
	}
	return c, nil
}

// initialize runs initdb unless the directory has a cluster already.
func (c *Cluster) initialize(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(c.dataDir(), "PG_VERSION")); err == nil {
		return nil
	}
	_, err := runProgram(ctx, c.account, c.dir, filepath.Join(c.bindir, "initdb"),
		"-D", c.dataDir(), "-U", superuser, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if err != nil {
		return fmt.Errorf("create cluster: %w", err)
	}
	return c.includeSettings()
}

// Dir is the directory with the cluster's data and log.
func (c *Cluster) Dir() string { return c.dir }

// Port is the TCP port on 127.0.0.1; it stays the same across restarts.
func (c *Cluster) Port() int { return c.port }

// LogPath is the file that the server logs to.
func (c *Cluster) LogPath() string { return filepath.Join(c.dir, "server.log") }

// URL is the superuser's connection string to a database over TCP.
func (c *Cluster) URL(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User(superuser),
		Host: "127.0.0.1:" + strconv.Itoa(c.port), Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// SocketURL is the superuser's connection string over the Unix socket; empty
// when the directory's path is too long for one.
func (c *Cluster) SocketURL(database string) string {
	if c.socketDir() == "" {
		return ""
	}
	query := url.Values{"host": {c.socketDir()}, "port": {strconv.Itoa(c.port)}}
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Path: "/" + database, RawQuery: query.Encode()}
	return u.String()
}

func (c *Cluster) dataDir() string { return filepath.Join(c.dir, "data") }

func (c *Cluster) socketDir() string {
	if len(filepath.Join(c.dir, ".s.PGSQL.65535.lock")) > maxSocketPath {
		return ""
	}
	return c.dir
}
