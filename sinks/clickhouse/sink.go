package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"

	"github.com/docket-exporter/exporter"
)

// Sink inserts one consumer's events into a table.
type Sink struct {
	cfg     Config
	options *driver.Options
	conn    driver.Conn

	mu      sync.Mutex
	closed  bool
	accepts bool               // a row since an event was named for being refused alone
	target  *target            // nil: ask the server before the next insert
	before  *target            // the last one that was filled
	spare   []column.Interface // of the last insert into target, to be filled again; nil when there are none
}

var _ exporter.Sink = (*Sink)(nil)

// Open reads the configuration. It does not wait for a server: one that is
// away, or a table that is missing, is an answer of Deliver and Check.
func Open(cfg Config) (*Sink, error) {
	cfg = cfg.withDefaults()
	options, err := cfg.options()
	if err != nil {
		return nil, fmt.Errorf("open clickhouse sink: %w", err)
	}
	conn, err := driver.Open(options)
	if err != nil {
		return nil, fmt.Errorf("open clickhouse sink: %w", redact(err, options))
	}
	return &Sink{cfg: cfg, options: options, conn: conn}, nil
}

// Deliver returns nil once the server has accepted the batch's events with one
// INSERT. The answers beside nil:
//
//   - *exporter.RejectedError names events that are too large or do not fit a
//     column's type, and one that is refused by itself while others are taken.
//   - *exporter.RefusedError: the server refused the rows for what is in them.
//   - *exporter.RetryAfterError with Overloaded: too many parts, too many
//     queries or no memory; the server wants fewer and larger inserts.
//   - *exporter.PauseError: table, columns, account or settings need a person.
//   - any other error: unavailable, or the outcome is unknown.
func (s *Sink) Deliver(ctx context.Context, batch exporter.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("deliver to clickhouse: the sink is closed")
	}
	if err := ctx.Err(); err != nil || len(batch.Events) == 0 {
		return err
	}
	if rejected := s.tooLarge(batch.Events); len(rejected) > 0 {
		return &exporter.RejectedError{Rejections: rejected}
	}
	if batch.Large() {
		// What the batch before was made of is garbage by now, and so much that
		// the collector would let it pile up to several batches.
		runtime.GC()
	}
	if err := s.insert(ctx, &batch); err != nil {
		return fmt.Errorf("deliver batch %d to table %s: %w", batch.Number, s.cfg.Table, s.alone(batch.Events, s.answer(err)))
	}
	s.accepts = true
	return nil
}

// alone names an event that is refused by itself while the table takes others.
// Having named one, it wants to see another row accepted before it names the
// next: when a table begins to refuse everything, at most one event is given up.
func (s *Sink) alone(events []exporter.Event, err error) error {
	refused, ok := errors.AsType[*exporter.RefusedError](err)
	if !ok || len(events) != 1 || !s.accepts {
		return err
	}
	s.accepts = false
	return &exporter.RejectedError{Rejections: []exporter.Rejection{{Event: events[0], Class: refused.Class, Reason: refused.Err.Error()}}}
}

func (s *Sink) tooLarge(events []exporter.Event) (rejected []exporter.Rejection) {
	for i := range events {
		if n := len(events[i].Payload) + len(events[i].Metadata); n > s.cfg.MaxEventBytes {
			rejected = append(rejected, exporter.Rejection{
				Event: events[i], Class: "too_large",
				Reason: fmt.Sprintf("payload and metadata have %d bytes of JSON, more than the %d that are sent", n, s.cfg.MaxEventBytes),
			})
		}
	}
	return rejected
}

// insert sends the batch. After any error the table is looked at again.
func (s *Sink) insert(ctx context.Context, batch *exporter.Batch) (err error) {
	defer func() {
		if err != nil {
			s.target, s.spare = nil, nil
		}
	}()
	if s.target == nil {
		if err := s.learn(ctx); err != nil {
			return err
		}
	}
	return s.insertInto(ctx, s.target, batch)
}

// learn describes the table, and makes it first where that is asked for.
func (s *Sink) learn(ctx context.Context) error {
	t, err := describe(ctx, s.conn, s.cfg.Table)
	if s.cfg.CreateTable && codeOf(err) == codeUnknownTable {
		if err := s.conn.Exec(ctx, DDL(s.cfg.Table, DDLOptions{})); err != nil {
			return fmt.Errorf("create table: %w", err)
		}
		s.cfg.Log.Info("table created", "table", s.cfg.Table)
		t, err = describe(ctx, s.conn, s.cfg.Table)
	}
	if err != nil {
		return err
	}
	if lost := t.lost(s.before); len(lost) > 0 {
		s.before = nil // a person who resumes has accepted it
		return pause("table %s has lost the column %s, which was filled until now: add it again, or resume the consumer to go on without it",
			s.cfg.Table, strings.Join(lost, ", "))
	}
	s.target, s.before = t, t
	return nil
}

func (s *Sink) insertInto(ctx context.Context, t *target, batch *exporter.Batch) error {
	names := make([]driver.ColumnNameAndType, len(t.columns))
	for i, c := range t.columns {
		names[i] = driver.ColumnNameAndType{Name: c.name, Type: c.typ}
	}
	insert, err := s.conn.PrepareBatch(driver.Context(ctx,
		driver.WithSettings(insertSettings(t.knows, s.options.Settings, batch.Token(t.shape))),
		driver.WithColumnNamesAndTypes(names),
	), t.statement)
	if err != nil {
		return fmt.Errorf("begin insert: %w", err)
	}
	columns := insert.Columns()
	recycle(columns, s.spare)
	s.spare = nil
	var rejected []exporter.Rejection
	for i := range batch.Events {
		e := &batch.Events[i]
		for j, fill := range t.fills {
			if err := fill(columns[j], e); err != nil {
				rejected = append(rejected, exporter.Rejection{
					Event: *e, Class: "unfit",
					Reason: fmt.Sprintf("column %s %s: %s", t.columns[j].name, t.columns[j].typ, reason(err)),
				})
				break
			}
		}
	}
	if len(rejected) > 0 {
		_ = insert.Abort() // nothing was sent
		return &exporter.RejectedError{Rejections: rejected}
	}
	if err := insert.Send(); err != nil {
		return fmt.Errorf("insert %d events: %w", len(batch.Events), err)
	}
	if jsonBytes(batch.Events) <= mostRecycled {
		s.spare = columns
	}
	return nil
}

func jsonBytes(events []exporter.Event) (n int) {
	for i := range events {
		n += len(events[i].Payload) + len(events[i].Metadata)
	}
	return n
}

// reason is why a fill failed, without the value.
func reason(err error) string {
	if m, ok := errors.AsType[misfit](err); ok {
		return m.Error()
	}
	return "the driver cannot put the value there"
}

// Close ends the connections. Deliver fails afterwards.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.conn.Close(); err != nil {
		return fmt.Errorf("close clickhouse sink: %w", err)
	}
	return nil
}
