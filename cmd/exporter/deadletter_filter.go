package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/docket-exporter/exporter/cursor"
)

// defaultLetters is how many a list shows.
const defaultLetters = 1000

// letterFlags choose dead letters on a command line.
type letterFlags struct {
	ids                        []int64
	consumer, run, kind, class string
	state, since, until        string
	limit                      int
}

func (f *letterFlags) flags(cmd *cobra.Command, limit int) {
	cmd.Flags().Int64SliceVar(&f.ids, "id", nil, "dead letters of these `IDS`")
	cmd.Flag("id").DefValue = ""
	cmd.Flags().StringVar(&f.consumer, "consumer", "", "of this consumer")
	cmd.Flags().StringVar(&f.run, "run", "", "of this run")
	cmd.Flags().StringVar(&f.kind, "type", "", "of this event type")
	cmd.Flags().StringVar(&f.class, "class", "", "of this class, such as undecodable, too_large, refused or expired")
	cmd.Flags().StringVar(&f.state, "state", "waiting", "open, held, waiting (both), replayed, discarded or all")
	cmd.Flags().StringVar(&f.since, "since", "", "put aside since: 24h or 2026-11-29T08:00:00Z")
	cmd.Flags().StringVar(&f.until, "until", "", "put aside before, written as --since")
	cmd.Flags().IntVar(&f.limit, "limit", limit, "at most so many")
}

// narrows reports whether anything but the state was chosen, so that nobody
// decides about everything by leaving something out.
func (f *letterFlags) narrows() bool {
	return len(f.ids) > 0 || f.consumer != "" || f.run != "" || f.kind != "" || f.class != "" || f.since != "" || f.until != ""
}

func (f *letterFlags) letters(now time.Time) (cursor.Letters, error) {
	l := cursor.Letters{IDs: f.ids, Consumer: f.consumer, Run: f.run, Type: f.kind, Class: f.class, Limit: f.limit}
	switch f.state {
	case "waiting":
		l.States = []string{cursor.StateOpen, cursor.StateHeld}
	case cursor.StateOpen, cursor.StateHeld, cursor.StateReplayed, cursor.StateDiscarded:
		l.States = []string{f.state}
	case "all":
	default:
		return l, usage(fmt.Errorf("--state %q is none; write open, held, waiting, replayed, discarded or all", f.state))
	}
	var err error
	if l.Since, err = momentOf("--since", f.since, now); err != nil {
		return l, err
	}
	l.Until, err = momentOf("--until", f.until, now)
	return l, err
}

func (f *letterFlags) find(cmd *cobra.Command, s *cursor.Store) ([]cursor.DeadLetter, error) {
	which, err := f.letters(time.Now())
	if err != nil {
		return nil, err
	}
	if f.limit < 1 {
		return nil, usage(fmt.Errorf("--limit %d shows nothing; give at least 1", f.limit))
	}
	list, err := s.DeadLetters(cmd.Context(), which)
	if len(list) == f.limit {
		fmt.Fprintf(cmd.ErrOrStderr(), "these are the first %d; --limit takes more\n", f.limit)
	}
	return list, err
}

// momentOf reads a time, or how long ago it was.
func momentOf(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	ago, err := parseDuration(text)
	if err != nil {
		return time.Time{}, usage(fmt.Errorf("%s %q is neither a time such as 2026-11-29T08:00:00Z nor a time span such as 24h or 7d", flag, text))
	}
	return now.Add(-ago), nil
}

// review is who has looked at dead letters, and what is to be done.
type review struct {
	cursor.Reviewed
	yes, dry bool
}

func (r *review) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.By, "reviewed-by", "", "who has looked at them, for the audit (required)")
	cmd.Flags().StringVar(&r.Reason, "reason", "", "why, for the audit (required)")
	cmd.Flags().BoolVar(&r.dry, "dry-run", false, "only say what would happen")
	cmd.Flags().BoolVar(&r.yes, "yes", false, "do it; needed for more than one")
}

func (r *review) validate(cmd *cobra.Command) error {
	if !utf8.ValidString(r.By + r.Reason) {
		return usage(errors.New("--reviewed-by and --reason must be UTF-8 text: what is done could not be recorded otherwise"))
	}
	if strings.TrimSpace(r.By) == "" || strings.TrimSpace(r.Reason) == "" {
		return usage(fmt.Errorf("%s wants --reviewed-by and --reason: who has looked at it and why, for the audit", cmd.CommandPath()))
	}
	return nil
}

// mayGo says what would happen to n letters, and whether it is to.
func (r *review) mayGo(p *process, plan string, n int) (bool, error) {
	switch {
	case r.dry:
		return false, say(p, "%s", plan)
	case n > 1 && !r.yes:
		if err := say(p, "%s", plan); err != nil {
			return false, err
		}
		return false, usage(errors.New("nothing was done; add --yes to do it"))
	}
	return true, nil
}
