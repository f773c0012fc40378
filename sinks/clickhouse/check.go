package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/docket-exporter/exporter"
)

// Check connects, looks at the table, and proves what happens to a batch that
// is sent twice, in a scratch table of the same engine and settings that is
// dropped afterwards. The table itself gets no row. An error says that the
// server could not be asked.
func (s *Sink) Check(ctx context.Context) ([]exporter.Finding, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &check{sink: s}
	version, err := s.conn.ServerVersion()
	if err != nil {
		return c.end(err)
	}
	c.add(exporter.LevelOK, "", "ClickHouse %d.%d answers at %s", version.Version.Major, version.Version.Minor, strings.Join(s.options.Addr, ","))
	t, err := describe(ctx, s.conn, s.cfg.Table)
	if codeOf(err) == codeUnknownTable && s.cfg.CreateTable {
		c.add(exporter.LevelOK, "", "table %s is not there yet and will be created", s.cfg.Table)
		err := c.prove(ctx, "", func(scratch string) string { return DDL(scratch, DDLOptions{}) })
		return c.end(err)
	}
	if err != nil {
		return c.end(err)
	}
	c.columns(t)
	return c.end(c.deduplication(ctx))
}

// check collects findings.
type check struct {
	sink     *Sink
	findings []exporter.Finding
}

func (c *check) add(level exporter.Level, hint, format string, args ...any) {
	c.findings = append(c.findings, exporter.Finding{Level: level, Text: fmt.Sprintf(format, args...), Hint: hint})
}

// end returns the findings. What a person can mend is one of them.
func (c *check) end(err error) ([]exporter.Finding, error) {
	if err == nil {
		return c.findings, nil
	}
	answer := c.sink.answer(err)
	if pause, ok := errors.AsType[*exporter.PauseError](answer); ok {
		c.add(exporter.LevelFail, "", "%s", pause.Detail)
		return c.findings, nil
	}
	return c.findings, fmt.Errorf("check table %s: %w", c.sink.cfg.Table, answer)
}

// clock matches default expressions whose value depends on when, where or how
// often a row is inserted.
var clock = regexp.MustCompile(`(?i)\b(now|now64|today|yesterday|rand\w*|generate\w+|hostName|uptime|currentUser|serverUUID)\s*\(`)

// columns says what of an event goes where.
func (c *check) columns(t *target) {
	var names []string
	for _, column := range t.columns {
		names = append(names, column.name)
	}
	c.add(exporter.LevelOK, "", "table %s takes %s", t.table, strings.Join(names, ", "))
	if len(t.absent) > 0 {
		c.add(exporter.LevelOK, "", "table %s has no column for %s: these are left out", t.table, strings.Join(t.absent, ", "))
	}
	for _, column := range t.others {
		if column.defaultKind != "ALIAS" && clock.MatchString(column.expression) {
			c.add(exporter.LevelWarn, "drop the default, or compute it from occurred_at or inserted_at",
				"column %s gets %s: an event that is delivered again gets another value, and replicas may differ", column.name, column.expression)
		}
	}
}
