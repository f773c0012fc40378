package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/docket-exporter/exporter/internal/subprocess"
)

// Bouncer is a PgBouncer in transaction pooling mode in front of one server.
// It admits the DSN's user and every user of BouncerOptions.Users.
type Bouncer struct {
	dir     *temporaryDir
	path    string
	account account
	dsn     *url.URL
	port    int

	mu      sync.Mutex
	process *process
	log     *os.File
}

// BouncerOptions say what a PgBouncer stands in front of.
type BouncerOptions struct {
	// DSN is a postgres:// URL over TCP; its database, user and password are
	// used through the bouncer, too.
	DSN string
	// PoolSize is the most server connections per database and user.
	PoolSize int
	// Users are further users, name to password, that may log in.
	Users map[string]string
}

// FindBouncer returns the path of PgBouncer.
func FindBouncer() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no pgbouncer found: install it with `apt-get install pgbouncer` or `tools/setup.sh pgbouncer`")
}

// StartBouncer runs a PgBouncer and returns once it forwards connections.
func StartBouncer(ctx context.Context, o BouncerOptions) (*Bouncer, error) {
	path, err := FindBouncer()
	if err != nil {
		return nil, err
	}
	dsn, err := url.Parse(o.DSN)
	if err != nil || dsn.Hostname() == "" || dsn.User == nil {
		return nil, errors.New("start pgbouncer: its DSN must be a postgres:// URL with host and user")
	}
	as, err := serverAccount()
	if err != nil {
		return nil, err
	}
	dir, err := newTemporaryDir(as)
	if err != nil {
		return nil, err
	}
	b := &Bouncer{dir: dir, path: path, account: as, dsn: dsn}
	if err := b.configure(o); err != nil {
		return nil, errors.Join(err, dir.remove())
	}
	if err := b.Start(ctx); err != nil {
		return nil, errors.Join(err, dir.remove())
	}
	return b, nil
}

// configure writes pgbouncer.ini and the list of users.
func (b *Bouncer) configure(o BouncerOptions) error {
	port, err := subprocess.FreePort()
	if err != nil {
		return err
	}
	b.port = port
	serverPort := b.dsn.Port()
	if serverPort == "" {
		serverPort = "5432"
	}
	ini := strings.Join([]string{
		"[databases]",
		fmt.Sprintf("* = host=%s port=%s", b.dsn.Hostname(), serverPort),
		"[pgbouncer]",
		"listen_addr = 127.0.0.1",
		"listen_port = " + strconv.Itoa(b.port),
		"unix_socket_dir =",
		"auth_type = trust",
		"auth_file = " + filepath.Join(b.dir.path, "users.txt"),
		"pool_mode = transaction",
		"default_pool_size = " + strconv.Itoa(max(1, o.PoolSize)),
		"max_client_conn = 500",
		"server_login_retry = 0.1",
		"",
	}, "\n")
	password, _ := b.dsn.User.Password()
	users := userLine(b.dsn.User.Username(), password)
	for name, password := range o.Users {
		users += userLine(name, password)
	}
	for name, text := range map[string]string{"pgbouncer.ini": ini, "users.txt": users} {
		if err := os.WriteFile(filepath.Join(b.dir.path, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write pgbouncer's %s: %w", name, err)
		}
	}
	if err := b.account.own(b.dir.path); err != nil {
		return fmt.Errorf("hand over pgbouncer's directory: %w", err)
	}
	return nil
}

// userLine is one line of PgBouncer's auth_file, which doubles quotes.
func userLine(name, password string) string {
	quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	return quote(name) + " " + quote(password) + "\n"
}

// DSN is the connection string through the bouncer.
func (b *Bouncer) DSN() string {
	u := *b.dsn
	u.Host = "127.0.0.1:" + strconv.Itoa(b.port)
	query := u.Query()
	query.Set("sslmode", "disable")
	u.RawQuery = query.Encode()
	return u.String()
}

// LogPath is the file that the bouncer logs to.
func (b *Bouncer) LogPath() string { return filepath.Join(b.dir.path, "pgbouncer.log") }

// Start runs a bouncer that is down, on its old port, and returns once it
// forwards connections.
func (b *Bouncer) Start(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process != nil {
		return nil
	}
	var err error
	b.log, err = os.OpenFile(b.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open pgbouncer's log: %w", err)
	}
	b.process, err = startProcess(b.account, b.dir.path, b.path, []string{filepath.Join(b.dir.path, "pgbouncer.ini")}, b.log)
	if err != nil {
		return errors.Join(err, b.log.Close())
	}
	if err := b.awaitReady(ctx); err != nil {
		return errors.Join(err, b.end(syscall.SIGKILL))
	}
	return nil
}

func (b *Bouncer) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, b.DSN())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-b.process.done:
			return fmt.Errorf("start pgbouncer: %w; its log says:\n%s", b.process.err, b.logText())
		case <-ctx.Done():
			return fmt.Errorf("await pgbouncer: %w (last answer: %w); its log says:\n%s", ctx.Err(), err, b.logText())
		case <-tick.C:
		}
	}
}

func (b *Bouncer) logText() string {
	text, err := os.ReadFile(b.LogPath())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-tailBytes):])
}

// Kill ends the bouncer with SIGKILL: every connection through it breaks.
func (b *Bouncer) Kill() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end(syscall.SIGKILL)
}

// Restart kills the bouncer and starts it again on the same port.
func (b *Bouncer) Restart(ctx context.Context) error {
	if err := b.Kill(); err != nil {
		return err
	}
	return b.Start(ctx)
}

// Stop ends the bouncer and removes its directory. It may be called again.
func (b *Bouncer) Stop() error {
	return errors.Join(b.Kill(), b.dir.remove())
}

func (b *Bouncer) end(sig syscall.Signal) error {
	if b.process == nil {
		return nil
	}
	if err := b.process.signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-b.process.done
	b.process = nil
	return b.log.Close()
}
