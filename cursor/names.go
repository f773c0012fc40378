package cursor

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// tables maps the names in braces, as the statements of this package write
// them, to quoted names.
func tables(schema string) *strings.Replacer {
	var pairs []string
	for _, name := range []string{"source", "consumers", "dead_letters", "losses", "audit", "replicas", "export_dead_letters"} {
		pairs = append(pairs, "{"+name+"}", pgx.Identifier{schema, name}.Sanitize())
	}
	return strings.NewReplacer(pairs...)
}
