package docket_test

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

// stepper stops a poll between any two of its statements, on the real wire:
// where before returns something to do, it holds back the bytes of that
// statement until the server has executed what was sent before, and does it.
type stepper struct {
	t       *testing.T
	watch   *pgx.Conn
	before  hook
	pending bool // something was sent whose execution must be awaited
}

// hook says what to do before a statement; nil is nothing.
type hook func(sql string) (act func())

// stepPool returns a pool of one connection whose statements before sees.
func stepPool(t *testing.T, dsn string, before hook) *pgxpool.Pool {
	t.Helper()
	s := &stepper{t: t, watch: pgtest.Connect(t, dsn), before: before}
	return pgtest.PlainPool(t, dsn, func(config *pgxpool.Config) {
		config.MaxConns = 1
		config.ConnConfig.RuntimeParams["application_name"] = "stepped"
		config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return &stepConn{Conn: conn, s: s}, err
		}
	})
}

type stepConn struct {
	net.Conn
	s       *stepper
	started bool
}

// Write passes whole messages on, stopping before each Parse.
func (c *stepConn) Write(b []byte) (int, error) {
	if !c.started { // the startup message has no type byte
		c.started = true
		return c.Conn.Write(b)
	}
	sent := 0
	for at := 0; at+5 <= len(b); {
		size := 1 + int(binary.BigEndian.Uint32(b[at+1:]))
		if b[at] == 'P' {
			sql := string(b[at+6 : at+size])
			if act := c.s.before(sql[:strings.IndexByte(sql, 0)]); act != nil {
				if at > sent {
					if _, err := c.Conn.Write(b[sent:at]); err != nil {
						return sent, err
					}
					sent, c.s.pending = at, true
				}
				c.s.await()
				act()
			}
		}
		at += size
	}
	n, err := c.Conn.Write(b[sent:])
	return sent + n, err
}

// await waits until the server has executed what it was sent.
func (s *stepper) await() {
	if !s.pending {
		return
	}
	pgtest.Until(s.t, 10*time.Second, "the server to wait for the next statement", func() bool {
		return pgtest.Value[int](s.t, s.watch, `SELECT count(*)::int FROM pg_stat_activity WHERE application_name = 'stepped' AND wait_event = 'ClientRead'`) == 1
	})
	s.pending = false
}

// stepName names a statement of a poll.
func stepName(sql string) string {
	switch {
	case strings.Contains(sql, "pg_locks"):
		return "holders"
	case strings.HasPrefix(sql, "BEGIN"):
		return "begin"
	case strings.HasPrefix(sql, "SELECT e.id FROM unnest"):
		return "ids"
	case strings.Contains(sql, "AS taken"):
		return "page"
	default:
		return ""
	}
}

// at returns a hook that does f once, before the n-th statement of that name.
func at(name string, n int, f func()) hook {
	return func(sql string) func() {
		if stepName(sql) != name {
			return nil
		}
		if n--; n != 0 {
			return nil
		}
		return f
	}
}
