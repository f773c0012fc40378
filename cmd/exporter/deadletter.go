package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-exporter/exporter/cursor"
)

const deadLetterHelp = `Look at the events that a sink will never accept, or that came too late, and
decide about them: replay sends them once more through the consumer's own sink,
with the same identity; discard gives them up. Both want to know who has looked
at them and why, and are kept in the audit table. docs/deadletters.md shows how.`

func newDeadLetterCommand(p *process) *cobra.Command {
	cmd := group("deadletter", "Look at dead letters and decide about them",
		newDeadLetterListCommand(p), newDeadLetterShowCommand(p), newDeadLetterReplayCommand(p),
		newDeadLetterDiscardCommand(p), newDeadLetterPurgeCommand(p))
	cmd.Long = deadLetterHelp
	return cmd
}

// letterReport is a dead letter without its payload; its JSON form is an
// interface for scripts.
type letterReport struct {
	ID           int64      `json:"id"`
	Consumer     string     `json:"consumer"`
	State        string     `json:"state"`
	Class        string     `json:"class"`
	Reason       string     `json:"reason"`
	RunID        string     `json:"run_id"`
	Seq          int64      `json:"seq"`
	EventID      int64      `json:"event_id"`
	Type         string     `json:"type"`
	TenantID     *string    `json:"tenant_id"`
	GraphID      *string    `json:"graph_id"`
	OccurredAt   *time.Time `json:"occurred_at"` // null for infinity
	Key          string     `json:"idempotency_key"`
	Bytes        int64      `json:"bytes"`
	Batch        int64      `json:"batch"`
	Attempts     int        `json:"attempts"`
	Replays      int        `json:"replays"`
	LastError    string     `json:"last_error,omitempty"`
	ClaimedBy    string     `json:"claimed_by,omitempty"`
	ClaimedUntil *time.Time `json:"claimed_until,omitempty"`
	FirstAt      time.Time  `json:"first_at"`
	ChangedAt    time.Time  `json:"changed_at"`
}

func reportLetter(d *cursor.DeadLetter) letterReport {
	e := &d.Event
	r := letterReport{
		ID: d.ID, Consumer: d.Consumer, State: d.State, Class: d.Class, Reason: d.Reason,
		RunID: e.RunID, Seq: e.Seq, EventID: e.ID, Type: e.Type, Key: d.Key, Bytes: d.Bytes, Batch: d.Batch,
		Attempts: d.Attempts, Replays: d.Replays, LastError: d.LastError, ClaimedBy: d.ClaimedBy, ClaimedUntil: d.ClaimedUntil,
		FirstAt: d.FirstAt.UTC(), ChangedAt: d.ChangedAt.UTC(),
	}
	if e.TenantID.Present {
		r.TenantID = &e.TenantID.Value
	}
	if e.GraphID.Present {
		r.GraphID = &e.GraphID.Value
	}
	if !e.OccurredAt.IsZero() {
		r.OccurredAt = &e.OccurredAt
	}
	return r
}

func newDeadLetterListCommand(p *process) *cobra.Command {
	var which letterFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List dead letters, those that wait unless told otherwise",
		Example: "  exporter deadletter list --consumer analytics --since 24h\n  exporter deadletter list --state all --json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withStore(cmd.Context(), func(s *cursor.Store, _ DatabaseConfig) error {
				list, err := which.find(cmd, s)
				if err != nil {
					return err
				}
				return printLetters(p.stdout, list, asJSON)
			})
		},
	}
	which.flags(cmd, defaultLetters)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func printLetters(w io.Writer, list []cursor.DeadLetter, asJSON bool) error {
	if asJSON {
		reports := make([]letterReport, len(list))
		for i := range list {
			reports[i] = reportLetter(&list[i])
		}
		return writeJSON(w, reports)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no dead letters")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tCONSUMER\tSTATE\tCLASS\tRUN\tSEQ\tTYPE\tATTEMPTS\tSINCE\tREASON")
	for i := range list {
		d := &list[i]
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%d\t%s\t%d\t%s\t%s\n", d.ID, d.Consumer, d.State, oneLine(d.Class), clipped(d.Event.RunID, 40), d.Event.Seq,
			clipped(d.Event.Type, 40), d.Attempts, stamp(&d.FirstAt), clipped(d.Reason, 80))
	}
	return t.Flush()
}

// clipped is the beginning of a text from outside, on one line.
func clipped(s string, most int) string {
	if runes := []rune(oneLine(s)); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return oneLine(s)
}

func newDeadLetterShowCommand(p *process) *cobra.Command {
	var asJSON, payload bool
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show one dead letter and what was done about it",
		Example: "  exporter deadletter show 17\n  exporter deadletter show 17 --payload",
		Args:    names("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil {
				return usage(fmt.Errorf("%q is not the id of a dead letter; `exporter deadletter list` shows them", args[0]))
			}
			return p.withStore(cmd.Context(), func(s *cursor.Store, _ DatabaseConfig) error {
				return showLetter(cmd.Context(), p.stdout, s, id, payload, asJSON)
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&payload, "payload", false, "show payload and metadata too, as a sink would get them whole")
	return cmd
}

// letterInFull is what show says in JSON.
type letterInFull struct {
	letterReport
	Payload  json.RawMessage `json:"payload,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Problem  string          `json:"undecodable,omitempty"`
	Audit    []cursor.Audit  `json:"audit"`
}

func showLetter(ctx context.Context, w io.Writer, s *cursor.Store, id int64, payload, asJSON bool) error {
	d, audit, err := s.DeadLetter(ctx, id)
	if errors.Is(err, cursor.ErrNoDeadLetter) {
		return usage(withHint(err, "`exporter deadletter list --state all` shows them"))
	}
	if err != nil {
		return err
	}
	full := letterInFull{letterReport: reportLetter(&d), Audit: audit}
	if payload {
		if err := whole.Render(&d.Event); err != nil {
			full.Problem = err.Error()
		}
		full.Payload, full.Metadata = d.Event.Payload, d.Event.Metadata
	}
	if asJSON {
		return writeJSON(w, full)
	}
	return printLetter(w, &d, &full)
}

func printLetter(w io.Writer, d *cursor.DeadLetter, full *letterInFull) error {
	e := &d.Event
	lines := [][2]string{
		{"id", strconv.FormatInt(d.ID, 10)},
		{"consumer", d.Consumer},
		{"state", d.State},
		{"class", oneLine(d.Class)},
		{"reason", oneLine(d.Reason)},
		{"run", oneLine(e.RunID)},
		{"seq", strconv.FormatInt(e.Seq, 10)},
		{"event id", strconv.FormatInt(e.ID, 10)},
		{"type", oneLine(e.Type)},
		{"occurred", stamp(full.OccurredAt)},
		{"key", d.Key},
		{"bytes", strconv.FormatInt(d.Bytes, 10)},
		{"attempts", fmt.Sprintf("%d, then %s", d.Attempts, plural(int64(d.Replays), "replay"))},
		{"put aside", fmt.Sprintf("%s, in batch %d", stamp(&d.FirstAt), d.Batch)},
	}
	for _, x := range []struct{ name, value string }{{"tenant", e.TenantID.Value}, {"graph", e.GraphID.Value}, {"node", e.NodeID.Value}, {"last error", d.LastError}} {
		if x.value != "" {
			lines = append(lines, [2]string{x.name, oneLine(x.value)})
		}
	}
	if d.ClaimedBy != "" {
		lines = append(lines, [2]string{"claimed", "by " + oneLine(d.ClaimedBy) + " until " + stamp(d.ClaimedUntil)})
	}
	for _, a := range full.Audit {
		text := fmt.Sprintf("%s %s by %s: %s → %s: %s", stamp(&a.At), a.Command, oneLine(a.Who), a.Before, a.After, oneLine(a.Reason))
		if a.Error != "" {
			text += ": " + oneLine(a.Error)
		}
		lines = append(lines, [2]string{"audit", text})
	}
	if full.Payload != nil {
		lines = append(lines, [2]string{"payload", oneLine(string(full.Payload))})
	}
	if full.Metadata != nil {
		lines = append(lines, [2]string{"metadata", oneLine(string(full.Metadata))})
	}
	if full.Problem != "" {
		lines = append(lines, [2]string{"undecodable", oneLine(full.Problem)})
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range lines {
		fmt.Fprintf(t, "%s\t%s\n", line[0], line[1])
	}
	return t.Flush()
}
