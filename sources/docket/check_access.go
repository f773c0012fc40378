package docket

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	exporter "github.com/docket-exporter/exporter"
)

// privileges looks at what the role may read. A grant on the columns alone is
// enough, so that docket_runs.state and claim_token can stay closed.
func (c *checker) privileges(ctx context.Context) error {
	var missing []string
	for _, r := range []struct {
		name    string
		columns map[string]string
	}{{c.table.events, eventColumns}, {c.table.runs, runColumns}} {
		var allowed, restricted bool
		err := c.conn.QueryRow(ctx, `
			SELECT bool_and(has_column_privilege($1::text, attribute, 'SELECT')), row_security_active($1::text)
			FROM unnest($2::text[]) AS attribute`, r.name, slices.Sorted(maps.Keys(r.columns))).Scan(&allowed, &restricted)
		if err != nil {
			return err
		}
		if !allowed {
			missing = append(missing, r.name)
		}
		if restricted {
			c.add(exporter.LevelFail, "row-level security hides rows of "+r.name+" from the role: they would never be exported",
				"give the role a policy that shows all rows and BYPASSRLS")
		}
	}
	var sequence bool
	if err := c.conn.QueryRow(ctx, `SELECT has_sequence_privilege($1::text, 'SELECT')`, c.table.sequence).Scan(&sequence); err != nil {
		return err
	}
	if !sequence {
		missing = append(missing, "sequence "+c.table.sequence)
	}
	if len(missing) > 0 {
		c.block("the role lacks SELECT on "+strings.Join(missing, ", "), grantsHint)
		return nil
	}
	c.add(exporter.LevelOK, "the role may read the tables and the id sequence", "")
	return nil
}

// settings looks at what a person may want to change.
func (c *checker) settings(ctx context.Context) error {
	var role, commit string
	var stats, stored bool
	err := c.conn.QueryRow(ctx, `
		SELECT current_user::text, pg_has_role('pg_read_all_stats', 'USAGE'), current_setting('synchronous_commit'),
		       EXISTS (SELECT FROM pg_db_role_setting s LEFT JOIN pg_database d ON d.oid = s.setdatabase
		               WHERE (s.setdatabase = 0 OR d.datname = current_database()) AND 'synchronous_commit=off' = ANY (s.setconfig))`).
		Scan(&role, &stats, &commit, &stored)
	if err != nil {
		return err
	}
	if stats {
		c.add(exporter.LevelOK, "the role sees since when transactions keep ids open", "")
	} else {
		c.add(exporter.LevelOK, "the role lacks pg_read_all_stats, which is optional: who keeps ids open is shown, since when is our own first sight of it",
			fmt.Sprintf("GRANT pg_read_all_stats TO %s", quote(role)))
	}
	if commit == "off" || stored {
		c.add(exporter.LevelWarn, "synchronous_commit is off: after a crash of the server, events that were exported may be missing and their ids used again",
			"set synchronous_commit to on for the roles that Docket uses")
	} else {
		c.add(exporter.LevelOK, "synchronous_commit is "+commit, "")
	}
	return nil
}
