package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-exporter/exporter/cursor"
)

func newCursorCommand(p *process) *cobra.Command {
	return group("cursor", "Show and change the positions of consumers",
		newCursorListCommand(p), newCursorShowCommand(p), newCursorSetCommand(p), newCursorExportCommand(p), newCursorImportCommand(p),
		newCursorLossesCommand(p), newAcceptLossCommand(p))
}

func newCursorListCommand(p *process) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List every consumer's position",
		Example: "  exporter cursor list",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withStore(cmd.Context(), func(s *cursor.Store, db DatabaseConfig) error {
				list, err := s.List(cmd.Context())
				if err != nil {
					return err
				}
				return printCursors(p.stdout, reportsOf(list, db), asJSON)
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func printCursors(w io.Writer, reports []consumerReport, asJSON bool) error {
	if asJSON {
		return writeJSON(w, reports)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var positions []string
	fmt.Fprintln(t, "CONSUMER\tKIND\tSTATE\tBATCH\tPOSITION")
	for i := range reports {
		r := &reports[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\n", r.Consumer, r.Kind, r.State, r.Batch, shortened(r.Position))
		positions = append(positions, r.Position)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return sayWhole(w, positions...)
}

func newCursorShowCommand(p *process) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show NAME|PLACE",
		Short:   "Show one consumer's cursor in full, or explain a place in the events",
		Long:    "Show one consumer's cursor in full, or explain a place in the events.\n\n" + placeHelp,
		Example: "  exporter cursor show analytics --json\n  exporter cursor show time:2026-11-29T10:00Z",
		Args:    names("NAME|PLACE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, name := cmd.Context(), args[0]
			if !consumerName.MatchString(name) {
				return p.showPlace(ctx, name, asJSON)
			}
			return p.withStore(ctx, func(s *cursor.Store, db DatabaseConfig) error {
				status, err := s.Get(ctx, name)
				if errors.Is(err, cursor.ErrNotFound) && (name == "earliest" || name == "latest") {
					return p.showPlace(ctx, name, asJSON)
				}
				if err != nil {
					_, err = consumerNamed(ctx, s, name)
					return err
				}
				if asJSON {
					return writeJSON(p.stdout, reportOf(&status, db))
				}
				lines, err := p.around(ctx, s, db, &status)
				if err != nil {
					fmt.Fprintf(p.stderr, "what lies around the position is unknown: %v\n", err)
				}
				r := reportOf(&status, db)
				return printWhole(p.stdout, append(cursorLines(r), lines...), r.Position)
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// consumerNamed reads a consumer, and for an unknown name says which exist.
func consumerNamed(ctx context.Context, s *cursor.Store, name string) (cursor.Status, error) {
	status, err := s.Get(ctx, name)
	if !errors.Is(err, cursor.ErrNotFound) {
		return status, err
	}
	list, listErr := s.List(ctx)
	if listErr != nil {
		return status, err
	}
	known := make([]string, len(list))
	for i := range list {
		known[i] = list[i].Name
	}
	hint := "`exporter cursor list` shows all"
	if near := nearest(name, known); near != "" {
		hint = "did you mean " + near + "?"
	}
	return status, usage(withHint(fmt.Errorf("there is no consumer %q", name), hint))
}

func cursorLines(r consumerReport) [][2]string {
	lines := [][2]string{
		{"consumer", r.Consumer},
		{"uid", r.UID},
		{"kind", r.Kind},
		{"state", r.words()},
		{"position", shortened(r.Position)},
		{"open ids", strconv.FormatInt(r.OpenIDs, 10)},
		{"batch", strconv.FormatInt(r.Batch, 10)},
		{"in flight", fmt.Sprintf("%s, attempt %s", plural(int64(r.InFlight), "event"), attempt(&r))},
		{"accepted", fmt.Sprintf("%s, last %s", plural(r.EventsAccepted, "event"), stamp(r.AcceptedAt))},
		{"caught up", stamp(r.CaughtUpAt)},
		{"epoch", strconv.FormatInt(r.Epoch, 10)},
		{"lease until", leaseEnd(&r)},
		{"dead letters", strconv.FormatInt(r.DeadLetters, 10)},
		{"losses", strconv.FormatInt(r.Losses, 10)},
	}
	if p := r.Paused; p != nil {
		lines = append(lines, [2]string{"paused by", p.By}, [2]string{"paused at", stamp(&p.At)},
			[2]string{"reason", p.Reason}, [2]string{"detail", oneLine(p.Detail)})
	}
	if r.LastError != "" {
		lines = append(lines, [2]string{"last error", stamp(r.LastErrorAt) + ": " + oneLine(r.LastError)})
	}
	for _, h := range r.Holders {
		lines = append(lines, [2]string{"held by", oneLine(describeHolder(h, r.now))})
	}
	for _, a := range r.Next {
		lines = append(lines, [2]string{"next", a.String()})
	}
	return lines
}

// leaseEnd is when the lease ends that somebody has.
func leaseEnd(r *consumerReport) string {
	if r.LeaseUntil == nil {
		return "none"
	}
	return stamp(r.LeaseUntil)
}

func stamp(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}
