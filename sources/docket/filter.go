package docket

import (
	"fmt"
	"strings"
)

// Filter selects rows by one text column. Its zero value selects all.
type Filter struct {
	include, exclude []string // LIKE patterns
}

// ParseFilter reads a comma list: "node_*,run_completed,!node_failed". An item
// ends in * to match a prefix and starts with ! to exclude. With no including
// item, everything that is not excluded is selected. An absent value (a run
// without a tenant) is matched as the empty string.
func ParseFilter(list string) (Filter, error) {
	var f Filter
	if strings.TrimSpace(list) == "" {
		return f, nil
	}
	for item := range strings.SplitSeq(list, ",") {
		if err := f.add(strings.TrimSpace(item)); err != nil {
			return Filter{}, err
		}
	}
	return f, nil
}

// FilterOf reads items as ParseFilter does, each whole, so that they may hold
// commas. An item that starts with = selects exactly the text behind it.
func FilterOf(items []string) (f Filter, err error) {
	for _, item := range items {
		if text, exact := strings.CutPrefix(item, "="); exact {
			f.include = append(f.include, escapeLike.Replace(text))
		} else if err = f.add(item); err != nil {
			return Filter{}, err
		}
	}
	return f, nil
}

// escapeLike makes a text a pattern of LIKE that matches only it.
var escapeLike = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

func (f *Filter) add(item string) error {
	name, exclude := strings.CutPrefix(item, "!")
	text, prefix := strings.CutSuffix(name, "*")
	if name == "" || strings.Contains(text, "*") {
		return fmt.Errorf("%q: want names separated by commas, each with at most a * at its end and a ! before it", item)
	}
	pattern := escapeLike.Replace(text)
	if prefix {
		pattern += "%"
	}
	if exclude {
		f.exclude = append(f.exclude, pattern)
	} else {
		f.include = append(f.include, pattern)
	}
	return nil
}

// all reports whether the filter selects every row.
func (f Filter) all() bool { return len(f.include) == 0 && len(f.exclude) == 0 }

// Filters select by the columns of an event and of its run.
type Filters struct {
	Types, Tenants, Graphs Filter
	Runs                   Filter // run ids
}

// condition returns an SQL condition for the row alias e of docket_events and
// r of docket_runs, with its parameters numbered from first.
func (f Filters) condition(first int) (sql string, params []string) {
	var parts []string
	add := func(column, operator string, patterns []string) {
		if len(patterns) == 0 {
			return
		}
		params = append(params, textArray(patterns))
		parts = append(parts, fmt.Sprintf("coalesce(%s, '') %s ($%d::text[])", column, operator, first+len(params)-1))
	}
	for _, c := range []struct {
		column string
		Filter
	}{{"e.type", f.Types}, {"r.tenant_id", f.Tenants}, {"r.graph_id", f.Graphs}, {"e.run_id", f.Runs}} {
		add(c.column, "LIKE ANY", c.include)
		add(c.column, "NOT LIKE ALL", c.exclude)
	}
	return strings.Join(parts, " AND "), params
}

// textArray is PostgreSQL's text form of a text[].
func textArray(items []string) string {
	quoted := make([]string, len(items))
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	for i, s := range items {
		quoted[i] = `"` + escape.Replace(s) + `"`
	}
	return "{" + strings.Join(quoted, ",") + "}"
}
