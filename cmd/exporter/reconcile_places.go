package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/reconcile"
	"github.com/docket-exporter/exporter/sinks/clickhouse"
	"github.com/docket-exporter/exporter/sinks/file"
	"github.com/docket-exporter/exporter/sources/docket"
)

const (
	mostLocated = 100 // copies that are not right
	mostForeign = 5   // lines that are no events
)

// located is where copies are that are not right.
type located struct {
	copies   []copyPlace
	invented int64        // lines of the files that Docket has not written
	foreign  []file.Place // the first of them
}

// copyPlace is a copy that is not right.
type copyPlace struct {
	RunID string `json:"run_id"`
	eventPlace
	Verdict string `json:"verdict"`
	File    string `json:"file,omitempty"`
	Line    int64  `json:"line,omitempty"`
	Field   string `json:"field,omitempty"` // the first one that differs, or the column
}

func (p *copyPlace) String() string {
	text := p.Verdict + ": "
	if p.File != "" {
		text += fmt.Sprintf("%s line %d, ", oneLine(p.File), p.Line)
	}
	text += fmt.Sprintf("%s/%d", clipped(p.RunID, 60), p.Seq)
	if p.Field != "" {
		text += " in " + p.Field
	}
	return text
}

// foreignText names the first lines that are no events.
func (l *located) foreignText(r *file.Reader) string {
	var texts []string
	for _, at := range slices.Concat(r.ForeignAt(), l.foreign) {
		if len(texts) < mostForeign {
			texts = append(texts, fmt.Sprintf("%s line %d", oneLine(at.File), at.Line))
		}
	}
	if r.Foreign()+l.invented > int64(len(texts)) {
		texts = append(texts, "…")
	}
	return strings.Join(texts, ", ")
}

// locate reads the first copies that are not right once more, to tell where they
// are and what of them is wrong.
func (j *reconciliation) locate(ctx context.Context, copies readable, source *docket.Source, result *reconcile.Result) (located, error) {
	l := locator{reconciliation: j, source: source, verdicts: map[exporter.Identity]string{}}
	l.invented = result.Invented
	for _, f := range result.Findings {
		if (f.Verdict == reconcile.Differs || f.Verdict == reconcile.Extra) && len(l.verdicts) < mostLocated {
			l.want(f.Identity, f.Verdict)
		}
	}
	for _, id := range result.Inventions {
		l.want(id, reconcile.Invented)
	}
	var err error
	switch r := copies.(type) {
	case *file.Reader:
		err = r.Lines(ctx, l.ids, func(line file.Line) error { return l.line(ctx, &line) })
	case *clickhouse.Reader:
		err = l.rows(ctx, r, result.Findings)
	}
	return l.located, err
}

type locator struct {
	*reconciliation
	located
	source   *docket.Source
	verdicts map[exporter.Identity]string
	ids      exporter.Ranges
}

func (l *locator) want(id exporter.Identity, verdict string) {
	id.RunID = string([]rune(id.RunID)) // as a line has it, which is UTF-8
	l.verdicts[id] = verdict
	l.ids = l.ids.Union(exporter.Ranges{{Lo: id.EventID, Hi: id.EventID}})
}

func (l *locator) line(ctx context.Context, line *file.Line) error {
	verdict, field := l.verdicts[line.Identity], ""
	switch verdict {
	case "":
		return nil
	case reconcile.Invented:
		if !line.Genuine {
			l.foreign = append(l.foreign, line.Place)
		}
		return nil
	case reconcile.Differs:
		var right bool
		var err error
		if right, field, err = l.compare(ctx, line); right || err != nil {
			return err
		}
	}
	if len(l.copies) < mostLocated {
		l.copies = append(l.copies, copyPlace{line.RunID, eventPlace{line.Seq, line.EventID}, verdict, line.File, line.Line, field})
	}
	return nil
}

// compare finds out what of a line differs; right is one of several lines of an
// event that does not.
func (l *locator) compare(ctx context.Context, line *file.Line) (right bool, field string, err error) {
	e, err := l.event(ctx, line.EventID)
	if e == nil || err != nil {
		return false, "", err
	}
	want := e.AppendJSON(nil)
	return bytes.Equal(line.Text, want), firstDifference(line.Text, want), nil
}

// event returns an event as the sink is given it, or nil.
func (l *locator) event(ctx context.Context, id int64) (*exporter.Event, error) {
	b, err := l.source.Events(ctx, exporter.Ranges{{Lo: id, Hi: id}})
	if err != nil || len(b.Events) == 0 {
		return nil, err
	}
	return &b.Events[0], nil
}

// rows finds out what differs of the rows of a table.
func (l *locator) rows(ctx context.Context, r *clickhouse.Reader, findings []reconcile.Finding) error {
	for _, f := range findings {
		if f.Verdict != reconcile.Differs {
			continue
		}
		if len(l.copies) == mostLocated {
			return nil
		}
		at := copyPlace{RunID: f.RunID, eventPlace: eventPlace{f.Seq, f.EventID}, Verdict: f.Verdict}
		e, err := l.event(ctx, f.EventID)
		if err == nil && e != nil {
			at.Field, err = r.Difference(ctx, e)
		}
		if err != nil {
			return err
		}
		l.copies = append(l.copies, at)
	}
	return nil
}

// firstDifference returns the name of the first field in which a line differs
// from the one that there should be.
func firstDifference(line, want []byte) string {
	l, w := json.NewDecoder(bytes.NewReader(line)), json.NewDecoder(bytes.NewReader(want))
	_, _ = l.Token()
	_, _ = w.Token()
	for {
		name, value := nextField(w)
		isName, is := nextField(l)
		switch {
		case name == "":
			return isName
		case name != isName || !bytes.Equal(value, is):
			return name
		}
	}
}

// nextField returns the next field of an object; the name is empty when there is
// none.
func nextField(d *json.Decoder) (name string, value json.RawMessage) {
	if !d.More() {
		return "", nil
	}
	token, err := d.Token()
	if err != nil || d.Decode(&value) != nil {
		return "", nil
	}
	name, _ = token.(string)
	return name, value
}
