package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/docket-exporter/exporter"
)

// column is one column of a table in the server's words.
type tableColumn struct {
	name, typ               string
	defaultKind, expression string
}

// target is a table as it is filled: learnt from a server, kept until an error.
type target struct {
	table     string
	columns   []tableColumn // those that are filled
	fills     []fill        // one for each of columns
	others    []tableColumn // those that get their default
	absent    []string      // fields that have no column
	statement string        // INSERT INTO table (columns)
	shape     string        // what the rows look like; part of the token
	knows     map[string]bool
}

// describe learns what the table looks like and which settings the server
// knows. A *exporter.PauseError says what a person must mend.
func describe(ctx context.Context, conn driver.Conn, table string) (*target, error) {
	columns, err := describeTable(ctx, conn, table)
	if err != nil {
		return nil, err
	}
	t := &target{table: table}
	var problems []string
	known := fields()
	for _, c := range columns {
		i := slices.IndexFunc(known, func(f field) bool { return f.name == c.name })
		if i < 0 || c.defaultKind == "MATERIALIZED" || c.defaultKind == "ALIAS" {
			t.others = append(t.others, c)
			continue
		}
		fill := filler(known[i], parseType(c.typ))
		if fill == nil {
			problems = append(problems, fmt.Sprintf("column %s has type %s, which cannot hold it: %s, or rename the column",
				c.name, c.typ, suggestion(known[i])))
			continue
		}
		t.columns, t.fills = append(t.columns, c), append(t.fills, fill)
	}
	for _, f := range known {
		filled := slices.ContainsFunc(t.columns, func(c tableColumn) bool { return c.name == f.name })
		exists := slices.ContainsFunc(columns, func(c tableColumn) bool { return c.name == f.name })
		switch {
		case !filled && f.required && !exists:
			problems = append(problems, fmt.Sprintf("column %s is missing: %s", f.name, suggestion(f)))
		case !filled && f.required && len(problems) == 0:
			problems = append(problems, fmt.Sprintf("column %s cannot be inserted into: make it an ordinary column", f.name))
		case !exists:
			t.absent = append(t.absent, f.name)
		}
	}
	if len(problems) > 0 {
		return nil, pause("table %s cannot take events: %s", table, strings.Join(problems, "; "))
	}
	t.finish()
	if t.knows, err = knownSettings(ctx, conn); err != nil {
		return nil, err
	}
	return t, nil
}

// finish derives the statement and the shape.
func (t *target) finish() {
	var names, shapes []string
	for _, c := range t.columns {
		names = append(names, "`"+c.name+"`")
		shapes = append(shapes, c.name+" "+c.typ)
	}
	t.statement = "INSERT INTO " + quoteTable(t.table) + " (" + strings.Join(names, ", ") + ")"
	t.shape = strings.Join(shapes, ",")
}

// lost returns the columns that before filled and t does not.
func (t *target) lost(before *target) (names []string) {
	if before == nil {
		return nil
	}
	for _, b := range before.columns {
		if !slices.ContainsFunc(t.columns, func(c tableColumn) bool { return c.name == b.name }) {
			names = append(names, b.name)
		}
	}
	return names
}

// suggestion is a definition of a column that can hold the field.
func suggestion(f field) string {
	typ := "String"
	switch {
	case f.number != nil:
		typ = "Int64"
	case f.instant != nil:
		typ = "DateTime64(6, 'UTC')"
	}
	return fmt.Sprintf("define it as %s %s", f.name, typ)
}

// describeTable asks for the table's columns. Servers of different ages answer
// with more or fewer texts for each; the first four are the same.
func describeTable(ctx context.Context, conn driver.Conn, table string) ([]tableColumn, error) {
	rows, err := conn.Query(ctx, "DESCRIBE TABLE "+quoteTable(table))
	if err != nil {
		return nil, fmt.Errorf("describe table %s: %w", table, err)
	}
	defer rows.Close()
	texts := make([]string, len(rows.Columns()))
	if len(texts) < 4 {
		return nil, errors.New("describe table " + table + ": the server's answer has fewer than four columns")
	}
	into := make([]any, len(texts))
	for i := range texts {
		into[i] = &texts[i]
	}
	var columns []tableColumn
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, fmt.Errorf("describe table %s: %w", table, err)
		}
		columns = append(columns, tableColumn{name: texts[0], typ: texts[1], defaultKind: texts[2], expression: texts[3]})
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("describe table %s: %w", table, err)
	}
	return columns, nil
}

func pause(format string, args ...any) *exporter.PauseError {
	return &exporter.PauseError{Reason: exporter.PausedSink, Detail: fmt.Sprintf(format, args...)}
}
