package clickhouse

import (
	"context"
	"fmt"
	"slices"
	"strings"

	exporter "github.com/docket-exporter/exporter"
)

// Difference returns the first of the columns compared in which a row of the
// event, one that Rows visits, differs from it; it is empty when none does.
func (r *Reader) Difference(ctx context.Context, e *exporter.Event) (column string, err error) {
	texts := slices.Clone(r.texts)
	if n := len(r.runTexts); n > 0 {
		texts = append(texts, r.runTexts[:n-1]...) // the last one is the run's id once more
	}
	sql, final := make([]string, len(texts)), ""
	for i := range texts {
		sql[i] = texts[i].sql
	}
	if r.collapse {
		final = " FINAL"
	}
	rows, err := r.conn.Query(ctx, fmt.Sprintf("SELECT toString(`run_id`), toInt64(`seq`), [%s] FROM %s%s WHERE %s",
		strings.Join(sql, ", "), r.table, final, r.within(exporter.Ranges{{Lo: e.ID, Hi: e.ID}})))
	if err != nil {
		return "", fmt.Errorf("read table %s: %w", r.table, err)
	}
	defer rows.Close()
	for rows.Next() && column == "" {
		var run string
		var seq int64
		var row []string
		if err := rows.Scan(&run, &seq, &row); err != nil {
			return "", fmt.Errorf("read table %s: %w", r.table, err)
		}
		if strings.TrimRight(run, "\x00") != e.RunID || seq != e.Seq {
			continue
		}
		for i := range texts {
			if string(texts[i].text(nil, e)) != row[i] {
				column = texts[i].column
				break
			}
		}
	}
	if err := rows.Err(); err != nil {
		return "", fmt.Errorf("read table %s: %w", r.table, err)
	}
	return column, nil
}
