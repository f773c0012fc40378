package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
)

const lossesHelp = `List the losses of a consumer that nobody has accepted yet: ids in which events
are, or may be, gone. The count is an upper bound, since ids that were never
used count as well; runs are named where what is left of them proves it.`

func newCursorLossesCommand(p *process) *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:     "losses NAME",
		Short:   "List the events that a consumer has lost, or may have",
		Long:    lossesHelp,
		Example: "  exporter cursor losses analytics\n  exporter cursor losses analytics --all --json",
		Args:    names("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withStore(cmd.Context(), func(s *cursor.Store, _ DatabaseConfig) error {
				if _, err := consumerNamed(cmd.Context(), s, args[0]); err != nil {
					return err
				}
				list, err := s.Losses(cmd.Context(), args[0], !all)
				if err != nil {
					return err
				}
				return printLosses(p.stdout, list, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "accepted ones as well")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// lossReport is a loss in JSON, an interface for scripts.
type lossReport struct {
	ID         int64              `json:"id"`
	Consumer   string             `json:"consumer"`
	Kind       string             `json:"kind"`
	At         time.Time          `json:"at"`
	FirstID    int64              `json:"first_id"`
	LastID     int64              `json:"last_id"`
	IDs        string             `json:"ids,omitempty"` // exactly which, where that is known
	AtMost     int64              `json:"at_most_events"`
	Certain    bool               `json:"certain"`
	Since      *time.Time         `json:"inserted_since,omitempty"`
	Until      *time.Time         `json:"inserted_until,omitempty"`
	Runs       []exporter.LostRun `json:"runs"`
	Reason     string             `json:"reason"`
	AcceptedAt *time.Time         `json:"accepted_at,omitempty"`
	AcceptedBy string             `json:"accepted_by,omitempty"`
	Accepted   string             `json:"accepted_reason,omitempty"`
}

func lossReportOf(l *cursor.LossRecord) lossReport {
	r := lossReport{
		ID: l.ID, Consumer: l.Consumer, Kind: l.Kind, At: l.At, FirstID: l.IDs.Lo, LastID: l.IDs.Hi, AtMost: l.Count, Certain: l.Certain,
		Runs: l.Runs, Reason: l.Reason, AcceptedAt: l.AcceptedAt, AcceptedBy: l.AcceptedBy, Accepted: l.Accepted,
	}
	if l.Exactly != nil {
		r.IDs = l.Exactly.String()
	}
	if !l.Since.IsZero() {
		r.Since, r.Until = &l.Since, &l.Until
	}
	return r
}

func printLosses(w io.Writer, list []cursor.LossRecord, asJSON bool) error {
	reports := make([]lossReport, len(list))
	for i := range list {
		reports[i] = lossReportOf(&list[i])
	}
	if asJSON {
		return writeJSON(w, reports)
	}
	if len(reports) == 0 {
		_, err := fmt.Fprintln(w, "no losses")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "LOSS\tIDS\tAT MOST\tINSERTED\tRUNS\tWHAT WAS SEEN")
	for i := range reports {
		r := &reports[i]
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\n", r.ID, idsOfLoss(r), plural(r.AtMost, "event"), window(r), runsOfLoss(r.Runs), oneLine(r.Reason))
	}
	return t.Flush()
}

func idsOfLoss(r *lossReport) string {
	if r.FirstID == r.LastID {
		return strconv.FormatInt(r.FirstID, 10)
	}
	return fmt.Sprintf("%d-%d", r.FirstID, r.LastID)
}

func window(r *lossReport) string {
	if r.Since == nil {
		return "unknown"
	}
	return r.Since.UTC().Format("2006-01-02T15:04Z") + " to " + r.Until.UTC().Format("2006-01-02T15:04Z")
}

// runsOfLoss names a few runs.
func runsOfLoss(runs []exporter.LostRun) string {
	const most = 3
	if len(runs) == 0 {
		return "unknown"
	}
	var parts []string
	for i := range runs[:min(most, len(runs))] {
		parts = append(parts, oneLine(runs[i].String()))
	}
	if more := len(runs) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, " ")
}

const acceptLossHelp = `Note that a person has seen losses of a consumer. The records stay, accepted; no
event comes back. A consumer that a loss has halted (ON_LOSS=halt) goes on
behind the lost ids once none of its losses is open.`

func newAcceptLossCommand(p *process) *cobra.Command {
	var ids []int64
	var all bool
	var by, reason string
	cmd := &cobra.Command{
		Use:     "accept-loss NAME --loss ID|--all",
		Short:   "Note that a person has seen what a consumer lost, and let it go on",
		Long:    acceptLossHelp,
		Example: `  exporter cursor accept-loss analytics --all --reviewed-by eve --reason "rebuilt from the audit log"`,
		Args:    names("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case by == "" || reason == "":
				return usage(fmt.Errorf("%s wants --reviewed-by and --reason: who has looked at it and why, for the audit", cmd.CommandPath()))
			case all == (len(ids) > 0):
				return usage(withHint(fmt.Errorf("%s wants either --loss or --all", cmd.CommandPath()), "`exporter cursor losses "+args[0]+"` lists them"))
			}
			return p.withStore(cmd.Context(), func(s *cursor.Store, _ DatabaseConfig) error {
				return acceptLosses(cmd.Context(), p, s, args[0], ids, by, reason)
			})
		},
	}
	cmd.Flags().Int64SliceVar(&ids, "loss", nil, "number of a loss (`ID`), as exporter cursor losses shows it")
	cmd.Flag("loss").DefValue = ""
	cmd.Flags().BoolVar(&all, "all", false, "every loss that is open now")
	cmd.Flags().StringVar(&by, "reviewed-by", "", "who has looked at them, for the audit (required)")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit (required)")
	return cmd
}

func acceptLosses(ctx context.Context, p *process, s *cursor.Store, name string, ids []int64, by, reason string) error {
	status, err := consumerNamed(ctx, s, name)
	if err != nil {
		return err
	}
	a, err := s.AcceptLosses(ctx, name, ids, by, reason)
	if errors.Is(err, cursor.ErrNotOpen) {
		err = usage(err)
	}
	if err != nil {
		return withHint(err, "`exporter cursor losses "+name+" --all` lists them")
	}
	if len(a.IDs) == 0 {
		return say(p, "%s has no open loss; nothing was changed", name)
	}
	text := fmt.Sprintf("accepted %s of %s", pluralLosses(int64(len(a.IDs))), name)
	switch {
	case a.Resumed:
		return say(p, "%s; it may go on after %s", text, shortPosition(status.Position))
	case a.Left > 0 && status.Paused != nil && status.Paused.Reason == exporter.PausedPossibleLoss:
		return say(p, "%s; %s left, until when it stays halted", text, pluralLosses(a.Left))
	case a.Left > 0:
		return say(p, "%s; %s left", text, pluralLosses(a.Left))
	}
	return say(p, "%s", text)
}

func pluralLosses(n int64) string {
	if n == 1 {
		return "1 loss"
	}
	return fmt.Sprintf("%d losses", n)
}

// refuseHalted refuses to resume a consumer that a loss has halted: whoever
// lets it go on is to say that the loss has been seen.
func refuseHalted(status *cursor.Status) error {
	if status.Paused == nil || status.Paused.Reason != exporter.PausedPossibleLoss || status.Losses == 0 {
		return nil
	}
	return needsPerson(withHint(errors.New(status.Name+" is halted by a loss that nobody has accepted"),
		fmt.Sprintf("look at it with `exporter cursor losses %s`, then `exporter cursor accept-loss %s --all --reviewed-by WHO --reason TEXT`", status.Name, status.Name)))
}
