package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docket-exporter/exporter/sources/docket"
)

// sourceReport is what `source show` says; its JSON form is an interface for
// scripts.
type sourceReport struct {
	DocketSchema string            `json:"docket_schema"`
	Known        int64             `json:"known_system_identifier,string"`
	Since        time.Time         `json:"known_since"`
	System       int64             `json:"system_identifier,string"`
	Now          *docket.Seen      `json:"now,omitempty"` // as the consumers find it
	Last         int64             `json:"last_id"`
	Consumers    []sourceForReport `json:"consumers"`
}

type sourceForReport struct {
	Consumer string        `json:"consumer"`
	Position string        `json:"position"`
	Changed  string        `json:"changed,omitempty"` // why it would pause
	Paused   string        `json:"paused,omitempty"`  // what was seen when it paused because the source had changed
	Gone     string        `json:"gone_ids"`          // read, and no rows now
	Later    int           `json:"later_rows"`        // rows at ids that are done, which cannot have been read
	Rows     []eventReport `json:"rows,omitempty"`    // the lowest of them
	Rewind   *int64        `json:"rewind_to,omitempty"`
}

// reportedRows is how many rows a report names.
const reportedRows = 10

func (c *comparison) report() sourceReport {
	r := sourceReport{DocketSchema: c.bound.DocketSchema, Known: c.bound.System, System: c.system, Since: c.bound.At.UTC(), Consumers: []sourceForReport{}}
	for i := range c.consumers {
		one := &c.consumers[i]
		r.Now, r.Last = &one.Present, one.Head
		f := sourceForReport{
			Consumer: one.Name, Position: one.Position.String(), Changed: one.Changed,
			Gone: one.Gone.String(), Later: len(one.Later), Rewind: one.rewind(),
		}
		if one.changed() && one.Paused != nil {
			f.Paused = one.Paused.Detail
		}
		for k := range one.Later[:min(len(one.Later), reportedRows)] {
			f.Rows = append(f.Rows, *eventReportOf(&one.Later[k]))
		}
		r.Consumers = append(r.Consumers, f)
	}
	return r
}

// rewind is where the consumer would have to go on to leave nothing out that
// was written since; nil when it is there.
func (c *compared) rewind() *int64 {
	to := c.Position.High
	if len(c.Later) > 0 {
		to = c.Later[0].EventID - 1
	}
	if to = min(to, c.Head); to == c.Position.High {
		return nil
	}
	return &to
}

func (r *sourceReport) print(w io.Writer) error {
	lines := [][2]string{{"known", fmt.Sprintf("schema %s on server %d, since %s", oneLine(r.DocketSchema), r.Known, stamp(&r.Since))}}
	if r.Now == nil {
		lines = append(lines, [2]string{"now", fmt.Sprintf("server %d; no consumer reads it", r.System)})
	} else {
		lines = append(lines, [2]string{"now", fmt.Sprintf("server %d on timeline %s, docket_events has oid %d and its sequence %d; the highest id is %d",
			r.Now.System, r.Now.Timeline, r.Now.Table, r.Now.Sequence, r.Last)})
	}
	for i := range r.Consumers {
		lines = append(lines, [2]string{r.Consumers[i].Consumer, strings.Join(r.Consumers[i].lines(), "\n\t")})
	}
	return printLines(w, lines)
}

func (f *sourceForReport) lines() []string {
	verdict := "the source is the one that was read"
	switch {
	case f.Changed != "":
		verdict = "CHANGED: " + oneLine(f.Changed)
	case f.Paused != "":
		verdict = "PAUSED: " + oneLine(f.Paused) + "; by what is kept, the source is the one that was read"
	}
	lines := []string{"at " + shortened(f.Position) + ": " + verdict}
	if f.Changed == "" {
		return lines
	}
	if f.Gone != "{}" {
		lines = append(lines, "ids "+shortened(f.Gone)+" were read and are no rows now: what was delivered of them may not exist in Docket any more")
	}
	if f.Later > 0 {
		lines = append(lines, fmt.Sprintf("%s at ids that are done %s inserted since the source was last read and not delivered:", plural(int64(f.Later), "row"), were(f.Later)))
		for i := range f.Rows {
			lines = append(lines, "  "+f.Rows[i].String())
		}
		if more := f.Later - len(f.Rows); more > 0 {
			lines = append(lines, fmt.Sprintf("  and %d more", more))
		}
	}
	if f.Rewind != nil {
		lines = append(lines, fmt.Sprintf("exporter source adopt --rewind-to %d would deliver what was written since", *f.Rewind))
	}
	return lines
}

func were(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}
