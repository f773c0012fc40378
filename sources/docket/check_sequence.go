package docket

import (
	"context"
	"fmt"
	"strings"

	exporter "github.com/docket-exporter/exporter"
)

// sequence looks at how ids are handed out. Only with steps of 1, none kept
// back in a session and none used twice, are the ids up to the sequence's
// value those that a transaction holding it may still write.
func (c *checker) sequence(ctx context.Context) error {
	var cache, increment int64
	var cycle bool
	err := c.conn.QueryRow(ctx, `SELECT seqcache, seqincrement, seqcycle FROM pg_sequence WHERE seqrelid = $1::oid`, c.table.seqOID).
		Scan(&cache, &increment, &cycle)
	if err != nil {
		return err
	}
	var seen, undo []string
	note := func(wrong bool, is, want string) {
		if wrong {
			seen, undo = append(seen, is), append(undo, want)
		}
	}
	note(cache != 1, fmt.Sprintf("CACHE %d", cache), "CACHE 1")
	note(increment != 1, fmt.Sprintf("INCREMENT %d", increment), "INCREMENT BY 1")
	note(cycle, "CYCLE", "NO CYCLE")
	if len(seen) > 0 {
		c.add(exporter.LevelFail, fmt.Sprintf("the id sequence %s has %s: ids could appear that count as done", c.table.sequence, strings.Join(seen, ", ")),
			fmt.Sprintf("ALTER SEQUENCE %s %s;", c.table.sequence, strings.Join(undo, " ")))
		return nil
	}
	c.add(exporter.LevelOK, fmt.Sprintf("the id sequence %s hands ids out one by one", c.table.sequence), "")
	return nil
}

// surroundings runs the statement with which every poll begins, as it is.
func (c *checker) surroundings(ctx context.Context) error {
	var s surroundings
	st := c.table.surroundingsStatement(&s)
	if err := st.read(c.conn.PgConn().ExecParams(ctx, st.sql, st.values, st.types, nil, binaryResults)); err != nil {
		found, err := refused(c.conn, err, "read who holds the id sequence")
		c.found = append(c.found, found...)
		return err
	}
	var highest int64
	if err := c.conn.QueryRow(ctx, `SELECT coalesce(max(id), 0) FROM `+c.table.events).Scan(&highest); err != nil {
		return err
	}
	if highest > s.last { // read before highest, so it may have been passed since
		if err := c.conn.QueryRow(ctx, `SELECT last_value FROM `+c.table.sequence).Scan(&s.last); err != nil {
			return err
		}
	}
	if highest > s.last {
		c.add(exporter.LevelFail, fmt.Sprintf("%s holds id %d, but its sequence %s is at %d: ids would be handed out again", c.table.events, highest, c.table.sequence, s.last),
			fmt.Sprintf("SELECT setval('%s', %d);", strings.ReplaceAll(c.table.sequence, "'", "''"), highest))
		return nil
	}
	c.add(exporter.LevelOK, fmt.Sprintf("who holds the id sequence can be read; it is at %d", s.last), "")
	return nil
}

func (c *checker) lowestID(ctx context.Context) error {
	var lowest int64
	if err := c.conn.QueryRow(ctx, `SELECT coalesce(min(id), 1) FROM `+c.table.events).Scan(&lowest); err != nil {
		return err
	}
	if lowest <= 0 {
		c.add(exporter.LevelFail, fmt.Sprintf("%s holds id %d; Docket's ids begin at 1", c.table.events, lowest),
			"see who inserted events with ids of their own")
	}
	return nil
}
