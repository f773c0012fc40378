package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-exporter/exporter/cursor"
)

// backfillReport is what list and show say of a backfill; its JSON form is an
// interface for scripts.
type backfillReport struct {
	Backfill   string       `json:"backfill"`
	State      string       `json:"state"` // running, paused, queued, stopped, finished or cancelled
	Spec       backfillSpec `json:"asked_for"`
	Position   string       `json:"position"`
	Until      string       `json:"until"`
	Share      float64      `json:"share"` // of the distance that is done, from 0 to 1
	Events     int64        `json:"events_accepted"`
	Owner      string       `json:"owner,omitempty"`
	Left       *float64     `json:"seconds_left,omitempty"` // at the speed since it was created
	CreatedAt  time.Time    `json:"created_at"`
	FinishedAt *time.Time   `json:"finished_at,omitempty"`
	Paused     *pauseReport `json:"paused,omitempty"`
	LastError  string       `json:"last_error,omitempty"`
	Waiting    string       `json:"waiting_for,omitempty"` // out of consideration, as its owner last said
	Letters    int64        `json:"dead_letters"`
	Next       string       `json:"next,omitempty"`
}

// What a backfill is that nobody works on.
const (
	backfillQueued  = "queued"  // a running exporter takes it up
	backfillStopped = "stopped" // it was worked on in the foreground
)

func backfillReportOf(b *cursor.BackfillStatus) (backfillReport, error) {
	spec, err := specOf(b)
	if err != nil {
		return backfillReport{}, err
	}
	r := backfillReport{
		Backfill: b.Name, State: b.State(), Spec: spec, Position: b.Position.String(), Until: b.Until.String(),
		Share: share(spec.Below, b), Events: b.EventsAccepted, CreatedAt: b.CreatedAt, FinishedAt: b.Finished,
		LastError: b.LastError, Waiting: b.Waiting, Letters: b.DeadLetters,
	}
	if r.State == cursor.Unowned {
		if r.State = backfillStopped; spec.Detached {
			r.State = backfillQueued
		}
	}
	if b.LeaseLive && b.Finished == nil {
		r.Owner = b.Owner
	}
	if p := b.Paused; p != nil {
		r.Paused = &pauseReport{p.By, p.At, p.Reason, p.Detail}
	}
	if b.Finished == nil && r.Share > 0 {
		left := b.Now.Sub(b.CreatedAt).Seconds() * (1 - r.Share) / r.Share
		r.Left = &left
	}
	r.Next = r.next()
	return r, nil
}

func (r *backfillReport) next() string {
	switch {
	case r.FinishedAt != nil && r.Letters > 0:
		return "exporter deadletter list --consumer " + r.Backfill
	case r.FinishedAt != nil:
		return ""
	case r.Paused != nil:
		return fmt.Sprintf("exporter backfill resume %s --reason TEXT", r.Backfill)
	case r.Owner != "":
		return ""
	case r.Spec.Detached:
		return "start `exporter run` with " + r.Spec.Consumer + " in EXPORTER_CONSUMERS; if one runs, it may be busy with another backfill"
	default:
		return r.Spec.command(r.Backfill)
	}
}

func newBackfillListCommand(p *process) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List all backfills, the newest last",
		Example: "  exporter backfill list",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withStore(cmd.Context(), func(s *cursor.Store, _ DatabaseConfig) error {
				list, err := s.Backfills(cmd.Context())
				if err != nil {
					return err
				}
				reports := make([]backfillReport, len(list))
				var now time.Time
				for i := range list {
					now = list[i].Now
					if reports[i], err = backfillReportOf(&list[i]); err != nil {
						return err
					}
				}
				if asJSON {
					return writeJSON(p.stdout, reports)
				}
				return printBackfills(p.stdout, reports, now)
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func printBackfills(w io.Writer, reports []backfillReport, now time.Time) error {
	if len(reports) == 0 {
		_, err := fmt.Fprintln(w, "there is no backfill")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "BACKFILL\tCONSUMER\tSTATE\tDONE\tEVENTS\tSINCE\tASKED FOR")
	for i := range reports {
		r := &reports[i]
		since := "created " + ago(now, &r.CreatedAt)
		if r.FinishedAt != nil {
			since = "ended " + ago(now, r.FinishedAt)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.1f %%\t%d\t%s\t%s\n", r.Backfill, r.Spec.Consumer, r.State, 100*r.Share, r.Events, since, oneLine(r.Spec.String()))
	}
	return t.Flush()
}

func newBackfillShowCommand(p *process) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show NAME",
		Short:   "Show one backfill",
		Example: "  exporter backfill show analytics_backfill_4f21c09a",
		Args:    names("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withBackfill(cmd.Context(), args[0], func(_ *cursor.Store, b cursor.BackfillStatus) error {
				r, err := backfillReportOf(&b)
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(p.stdout, r)
				}
				return printLines(p.stdout, r.lines(b.Now))
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (r *backfillReport) lines(now time.Time) [][2]string {
	state := r.State
	if r.Owner != "" {
		state += " on " + r.Owner
	}
	lines := [][2]string{
		{"backfill", r.Backfill},
		{"of", r.Spec.Consumer},
		{"asked for", oneLine(r.Spec.String())},
		{"state", state},
		{"position", shortened(r.Position)},
		{"until", shortened(r.Until)},
		{"done", fmt.Sprintf("%.1f %%, %s", 100*r.Share, eventsOf(r.Events, r.Share))},
		{"created", ago(now, &r.CreatedAt)},
	}
	if r.Spec.Rate > 0 {
		lines = append(lines, [2]string{"rate", "at most " + r.Spec.Rate.String()})
	}
	if r.Left != nil {
		lines = append(lines, [2]string{"left", secondsOf(*r.Left).Round(time.Second).String() + " at the speed since then"})
	}
	if r.FinishedAt != nil {
		lines = append(lines, [2]string{"ended", ago(now, r.FinishedAt)})
	}
	if w := r.Paused; w != nil {
		lines = append(lines, [2]string{"paused", fmt.Sprintf("by %s %s: %s: %s", w.By, ago(now, &w.At), w.Reason, oneLine(w.Detail))})
	}
	if r.Waiting != "" {
		lines = append(lines, [2]string{"waits", oneLine(r.Waiting)})
	}
	if r.LastError != "" {
		lines = append(lines, [2]string{"last error", oneLine(r.LastError)})
	}
	if r.Letters > 0 {
		lines = append(lines, [2]string{"dead letters", fmt.Sprint(r.Letters)})
	}
	if r.Next != "" {
		lines = append(lines, [2]string{"next", oneLine(r.Next)})
	}
	return lines
}

// withBackfill runs do with a backfill that exists.
func (p *process) withBackfill(ctx context.Context, name string, do func(*cursor.Store, cursor.BackfillStatus) error) error {
	return p.withStore(ctx, func(s *cursor.Store, _ DatabaseConfig) error {
		b, err := s.Backfill(ctx, name)
		if errors.Is(err, cursor.ErrNotFound) {
			return usage(withHint(fmt.Errorf("there is no backfill %q", name), "`exporter backfill list` shows all"))
		}
		if err != nil {
			return err
		}
		return do(s, b)
	})
}

// newBackfillChange is a command that changes a backfill.
func newBackfillChange(p *process, use, short, example string, do func(context.Context, *cursor.Store, *cursor.BackfillStatus, *change) error) *cobra.Command {
	var c change
	cmd := &cobra.Command{
		Use: use + " NAME", Short: short, Example: example, Args: names("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.validate(cmd); err != nil {
				return err
			}
			return p.withBackfill(cmd.Context(), args[0], func(s *cursor.Store, b cursor.BackfillStatus) error {
				return do(cmd.Context(), s, &b, &c)
			})
		},
	}
	c.flags(cmd, p)
	return cmd
}

func newBackfillPauseCommand(p *process) *cobra.Command {
	return newBackfillChange(p, "pause", "Stop a backfill where it is, until it is resumed",
		`  exporter backfill pause analytics_backfill_4f21c09a --reason "peak hours"`,
		func(ctx context.Context, s *cursor.Store, b *cursor.BackfillStatus, c *change) error {
			changed, err := s.Pause(ctx, b.Name, c.By, c.Reason)
			if errors.Is(err, cursor.ErrFinished) {
				return say(p, "%s has ended; nothing was changed", b.Name)
			}
			if err != nil {
				return err
			}
			if !changed {
				return sayPaused(ctx, p, s, b.Name)
			}
			if !b.LeaseLive {
				return say(p, "%s is paused at %s; no process works on it", b.Name, shortPosition(b.Position))
			}
			return say(p, "%s is paused at %s; whoever works on it stops within seconds", b.Name, shortPosition(b.Position))
		})
}

func newBackfillResumeCommand(p *process) *cobra.Command {
	return newBackfillChange(p, "resume", "Let a paused backfill go on where it stopped",
		`  exporter backfill resume analytics_backfill_4f21c09a --reason "night"`,
		func(ctx context.Context, s *cursor.Store, b *cursor.BackfillStatus, c *change) error {
			changed, err := s.Resume(ctx, b.Name, c.By, c.Reason)
			if err != nil {
				return err
			}
			b.Paused = nil
			r, err := backfillReportOf(b)
			if err != nil {
				return err
			}
			if !changed {
				return say(p, "%s is not paused, it is %s; nothing was changed", b.Name, r.State)
			}
			if r.Next != "" {
				return say(p, "%s may go on at %s; next: %s", b.Name, shortPosition(b.Position), oneLine(r.Next))
			}
			return say(p, "%s may go on at %s", b.Name, shortPosition(b.Position))
		})
}
