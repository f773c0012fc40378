package docket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNotDirect says that a connection goes through a pooler or a proxy. A lock
// taken through one may outlive its taker there and stop pruning for ever.
var ErrNotDirect = errors.New("the connection is not direct")

// ErrPrunerAtWork says that a pass of the pruner is under way.
var ErrPrunerAtWork = errors.New("a pass of Docket's pruner is under way")

// prunerKey is the key of the advisory lock that Docket's pruner takes for
// each pass over a schema ($1), exclusively and without waiting for it.
const prunerKey = `hashtextextended('docket:pruner:' || $1::text, 0)`

// PrunerHold keeps Docket's pruner from working on a schema: while it is had,
// every pass is skipped. All of the schema's pruning stops: of events, finished
// runs and graphs. Several holds may be had at once, by any processes. One ends
// with Release, or with its session.
type PrunerHold struct {
	conn   *pgx.Conn
	schema string
}

// HoldPruner takes a hold on a connection of its own, which must be direct:
// ErrNotDirect otherwise. It never waits for the lock, so nobody queues behind
// it, and returns ErrPrunerAtWork while it cannot be had. system is the
// identifier that the server must have, 0 for any.
func HoldPruner(ctx context.Context, config *pgx.ConnConfig, schema string, system int64) (*PrunerHold, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	h := &PrunerHold{conn: conn, schema: schema}
	if err := h.take(ctx, system); err != nil {
		return nil, errors.Join(err, h.close(ctx))
	}
	return h, nil
}

func (h *PrunerHold) take(ctx context.Context, system int64) error {
	if err := h.verifyPlace(ctx, system); err != nil {
		return err
	}
	if err := verifyDirect(ctx, h.conn); err != nil {
		return err
	}
	if _, err := h.conn.Exec(ctx, sessionOfHold); err != nil {
		return fmt.Errorf("set up the session that holds the pruner off: %w", err)
	}
	var had bool
	if err := h.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock_shared(`+prunerKey+`)`, h.schema).Scan(&had); err != nil {
		return fmt.Errorf("take the pruner's lock: %w", err)
	}
	if !had {
		return ErrPrunerAtWork
	}
	return nil
}

// verifyPlace refuses a server or a database in which the lock means nothing.
func (h *PrunerHold) verifyPlace(ctx context.Context, system int64) error {
	var recovery, found bool
	var id int64
	err := h.conn.QueryRow(ctx, `SELECT pg_is_in_recovery(), (SELECT system_identifier FROM pg_control_system()), to_regclass($1::text) IS NOT NULL`,
		quote(h.schema)+".docket_events").Scan(&recovery, &id, &found)
	switch {
	case err != nil:
		return fmt.Errorf("look at the server: %w", err)
	case recovery:
		return errRecovery
	case system != 0 && id != system:
		return fmt.Errorf("the server has system identifier %d, the one that is read %d", id, system)
	case !found:
		return fmt.Errorf("database %q has no %s.docket_events: %w", h.conn.Config().Database, quote(h.schema), ErrNoTable)
	}
	return nil
}

// sessionOfHold lets the session live as long as this process does and no
// longer: the server probes a client that says nothing, and ends a session over
// which no Check comes, since a frozen process keeps its sockets.
const sessionOfHold = `SELECT set_config(name, value, false) FROM (VALUES
	('idle_session_timeout', '30s'), ('tcp_keepalives_idle', '15'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3')) s(name, value)
WHERE EXISTS (SELECT FROM pg_catalog.pg_settings p WHERE p.name = s.name)`

// verifyDirect compares what both ends know of the connection: the process
// that the server named at its start with the one that serves us now, and over
// TCP our port as the server sees it with the one of our socket. A pooler makes
// keys of its own and has a socket of its own.
func verifyDirect(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	var port *int
	var addr *string
	err := conn.QueryRow(ctx, `SELECT pg_backend_pid(), inet_client_port(), host(inet_client_addr())`).Scan(&pid, &port, &addr)
	if err != nil {
		return fmt.Errorf("ask the server who is connected: %w", err)
	}
	local := conn.PgConn().Conn().LocalAddr()
	tcp, overTCP := local.(*net.TCPAddr)
	switch {
	case pid != conn.PgConn().PID():
		return fmt.Errorf("%w: the server's process is %d, but the connection was promised %d: a pooler is in between", ErrNotDirect, pid, conn.PgConn().PID())
	case overTCP && port == nil:
		return fmt.Errorf("%w: we are connected over TCP, the server sees a socket of its own machine: a pooler is in between", ErrNotDirect)
	case overTCP && *port != tcp.Port:
		return fmt.Errorf("%w: our port is %d, the server sees port %d of %s: a pooler or a proxy is in between", ErrNotDirect, tcp.Port, *port, *addr)
	case !overTCP && port != nil:
		return fmt.Errorf("%w: we are connected over %s, the server sees port %d of %s: a pooler is in between", ErrNotDirect, local.Network(), *port, *addr)
	}
	return nil
}

// Check returns an error when the hold is gone. Where none comes for half a
// minute PostgreSQL 14 and newer end the hold.
func (h *PrunerHold) Check(ctx context.Context) error {
	var had bool
	err := h.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks l WHERE l.pid = pg_backend_pid() AND `+ofPruner+`)`, h.schema).Scan(&had)
	if err == nil && !had {
		err = errors.New("the session does not have it any more")
	}
	if err != nil {
		return fmt.Errorf("look at the hold on the pruner: %w", err)
	}
	return nil
}

// Already returns for how long sessions of the same application name have held
// the pruner off before this one; 0 where none has, or our role may not see it.
func (h *PrunerHold) Already(ctx context.Context) (time.Duration, error) {
	var us int64
	err := h.conn.QueryRow(ctx, `SELECT coalesce(max(extract(epoch FROM me.backend_start - a.backend_start) * 1e6), 0)::int8
		FROM pg_stat_activity me, pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE me.pid = pg_backend_pid() AND a.application_name = me.application_name AND l.mode = 'ShareLock' AND `+ofPruner, h.schema).Scan(&us)
	if err != nil {
		return 0, fmt.Errorf("look who else holds the pruner off: %w", err)
	}
	return time.Duration(max(us, 0)) * time.Microsecond, nil
}

// ofPruner is the pruner's lock among pg_locks l.
const ofPruner = `l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
	AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	AND (l.classid::bigint << 32 | l.objid::bigint) = ` + prunerKey

// Release lets the pruner work again.
func (h *PrunerHold) Release(ctx context.Context) error {
	_, err := h.conn.Exec(ctx, `SELECT pg_advisory_unlock_shared(`+prunerKey+`)`, h.schema)
	return errors.Join(err, h.close(ctx))
}

// close ends the session, and with it the hold.
func (h *PrunerHold) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	return h.conn.Close(ctx)
}

// PrunerHolder is a session that keeps the pruner off.
type PrunerHolder struct {
	PID         int32
	Application string
	Since       time.Time // when its session began; zero where our role may not see it
}

// PrunerHolders returns the sessions, of any process, that keep Docket's pruner
// off a schema at the moment.
func PrunerHolders(ctx context.Context, db querier, schema string) ([]PrunerHolder, error) {
	rows, err := db.Query(ctx, `SELECT l.pid, coalesce(a.application_name, ''), a.backend_start FROM pg_locks l
		LEFT JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.mode = 'ShareLock' AND `+ofPruner+` ORDER BY l.pid`, schema)
	if err != nil {
		return nil, fmt.Errorf("list who holds the pruner off: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (PrunerHolder, error) {
		var h PrunerHolder
		var since *time.Time
		err := row.Scan(&h.PID, &h.Application, &since)
		if since != nil {
			h.Since = *since
		}
		return h, err
	})
}
