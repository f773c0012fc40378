package clickhouse

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/docket-exporter/exporter"
)

// scratchTimeout bounds removing the scratch table.
const scratchTimeout = 10 * time.Second

// deduplication finds out what kind of table it is and proves on a copy what
// happens to a batch that comes twice.
func (c *check) deduplication(ctx context.Context) error {
	s := c.sink
	database, table, found := strings.Cut(s.cfg.Table, ".")
	where := "database = '" + database + "'"
	if !found {
		table, where = s.cfg.Table, "database = currentDatabase()"
	}
	var engine, full string
	err := s.conn.QueryRow(ctx, "SELECT engine, engine_full FROM system.tables WHERE "+where+" AND name = '"+table+"'").Scan(&engine, &full)
	if err != nil {
		return fmt.Errorf("read the engine of table %s: %w", s.cfg.Table, err)
	}
	if !strings.HasSuffix(engine, "MergeTree") {
		c.add(exporter.LevelWarn, "check the tables behind it: name one of them in …_CLICKHOUSE_TABLE for a check",
			"not proven: table %s has engine %s, and what it writes to decides about duplicates", s.cfg.Table, engine)
		return nil
	}
	return c.prove(ctx, engine, func(scratch string) string {
		return "CREATE TABLE " + quoteTable(scratch) + " AS " + quoteTable(s.cfg.Table) + " ENGINE = " + apart(full, scratch)
	})
}

var coordinationPath = regexp.MustCompile(`^((?:Replicated|Shared)\w*MergeTree\(')([^']*)'`)

// apart gives a replicated engine a path of its own in the coordination
// service, so that the copy is no replica of the original.
func apart(engine, scratch string) string {
	return coordinationPath.ReplaceAllString(engine, "${1}${2}/"+strings.ReplaceAll(scratch, ".", "_")+"'")
}

// prove makes a scratch table, sends it a batch twice and once more in another
// cut, counts, and drops the table.
func (c *check) prove(ctx context.Context, engine string, create func(scratch string) string) error {
	s := c.sink
	scratch := "docket_exporter_check_" + strings.ToLower(rand.Text())
	if database, _, found := strings.Cut(s.cfg.Table, "."); found {
		scratch = database + "." + scratch
	}
	if err := s.conn.Exec(ctx, create(scratch)); err != nil {
		if _, isPause := errors.AsType[*exporter.PauseError](s.answer(err)); !isPause {
			return fmt.Errorf("create scratch table: %w", err)
		}
		c.add(exporter.LevelWarn, "grant CREATE TABLE and DROP TABLE for the time of a check",
			"not proven: no scratch table may be made: %v", s.answer(err))
		return nil
	}
	defer c.drop(ctx, scratch)
	o, err := observe(ctx, s, scratch)
	if err == nil {
		c.judge(engine, o)
		return nil
	}
	if refused, ok := errors.AsType[*exporter.RefusedError](s.answer(err)); ok {
		c.add(exporter.LevelWarn, "", "not proven: the table refuses the rows of the check: %v", refused)
		return nil
	}
	return err
}

func (c *check) drop(ctx context.Context, scratch string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scratchTimeout)
	defer cancel()
	if err := c.sink.conn.Exec(ctx, "DROP TABLE IF EXISTS "+quoteTable(scratch)); err != nil {
		c.add(exporter.LevelWarn, "drop it: DROP TABLE "+quoteTable(scratch), "the scratch table is still there: %v", c.sink.answer(err))
	}
}

// observation is what was counted in the scratch table.
type observation struct {
	token   bool   // the server knows tokens
	sent    uint64 // different events
	once    uint64 // rows after the first insert
	twice   uint64 // rows after the same insert again
	final   uint64 // rows under FINAL after a third insert in another cut
	noFinal bool   // the engine has no FINAL
}

func observe(ctx context.Context, s *Sink, scratch string) (o observation, err error) {
	t, err := describe(ctx, s.conn, scratch)
	if err != nil {
		return o, err
	}
	batch := probe()
	o.token, o.sent = t.knows[settingToken], uint64(len(batch.Events))
	count := func(final string) (n uint64, err error) {
		err = s.conn.QueryRow(ctx, "SELECT count() FROM "+quoteTable(scratch)+final).Scan(&n)
		return n, err
	}
	for _, rows := range []*uint64{&o.once, &o.twice} {
		if err := s.insertInto(ctx, t, &batch); err != nil {
			return o, fmt.Errorf("insert into scratch table: %w", err)
		}
		if *rows, err = count(""); err != nil {
			return o, fmt.Errorf("count scratch table: %w", err)
		}
	}
	batch.Number++
	if err := s.insertInto(ctx, t, &batch); err != nil {
		return o, fmt.Errorf("insert into scratch table: %w", err)
	}
	if o.final, err = count(" FINAL"); codeOf(err) == codeIllegalFinal {
		o.noFinal = true
		return o, nil
	}
	if err != nil {
		return o, fmt.Errorf("count scratch table: %w", err)
	}
	return o, nil
}

// probe is a batch with events that differ in seq, and in nothing but the id.
func probe() exporter.Batch {
	now := time.Now().UTC().Truncate(time.Second)
	b := exporter.Batch{Consumer: "check", UID: rand.Text(), Number: 1, Attempt: 1}
	for i, seq := range []int64{1, 1, 2} {
		b.Events = append(b.Events, exporter.Event{
			ID: int64(i + 1), RunID: "docket_exporter_check", Seq: seq, Type: "check",
			OccurredAt: now, InsertedAt: now, Payload: []byte("{}"), Metadata: []byte("{}"),
		})
	}
	return b
}

func replicated(engine string) bool {
	return strings.HasPrefix(engine, "Replicated") || strings.HasPrefix(engine, "Shared")
}

// judge turns the counts into a verdict.
func (c *check) judge(engine string, o observation) {
	const replacing = "make it a ReplacingMergeTree with ORDER BY (run_id, seq, event_id); see `exporter check --print-ddl`"
	window := "ALTER TABLE … MODIFY SETTING non_replicated_deduplication_window = 1000"
	if replicated(engine) {
		window = "ALTER TABLE … MODIFY SETTING replicated_deduplication_window = 1000"
	}
	exact, absorbed := o.twice == o.once, !o.noFinal && o.final == o.sent
	switch {
	case o.once < o.sent || !o.noFinal && o.final < o.sent:
		c.add(exporter.LevelFail, replacing, "events are lost: the sorting key of table %s takes different events for the same", c.sink.cfg.Table)
	case exact && absorbed:
		c.add(exporter.LevelOK, "", "exact: a batch that is sent twice is stored once, and one that is sent again later disappears under FINAL (proven)")
	case exact:
		c.add(exporter.LevelOK, "", "exact: a batch that is sent twice is stored once, as long as the server remembers it (proven)")
		c.add(exporter.LevelWarn, replacing, "events that are sent again after a deliberate rewind stay twice")
	case absorbed && o.token:
		c.add(exporter.LevelWarn, window, "eventual: a batch that is sent twice is there twice until merged; only queries with FINAL are exact (proven)")
	case absorbed:
		c.add(exporter.LevelWarn, "query with FINAL, or use a server from 22.2 on", "eventual: a batch that is sent twice is there twice until merged; only queries with FINAL are exact (proven); this server knows no insert_deduplication_token")
	case o.token:
		c.add(exporter.LevelWarn, window+", or better "+replacing, "duplicates possible: a batch that is sent twice is stored twice (proven)")
	default:
		c.add(exporter.LevelWarn, replacing, "duplicates possible: a batch that is sent twice is stored twice (proven)")
	}
}
