package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-exporter/exporter/cursor"
)

const discardHelp = `Give dead letters up: they are never sent. The rows stay, as discarded, until
deadletter purge. Events that are held behind one of them stay held; replay or
discard them too.`

func newDeadLetterDiscardCommand(p *process) *cobra.Command {
	var which letterFlags
	var r review
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "discard",
		Short:   "Give dead letters up",
		Long:    discardHelp,
		Example: `  exporter deadletter discard --id 17 --reviewed-by eve --reason "test data"`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.validate(cmd); err != nil {
				return err
			}
			return p.withStore(cmd.Context(), func(s *cursor.Store, _ DatabaseConfig) error {
				list, err := which.chosen(cmd, s)
				if err != nil {
					return err
				}
				return discard(cmd.Context(), p, s, list, &r, asJSON)
			})
		},
	}
	which.flags(cmd, defaultLetters)
	r.flags(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// chosen returns the letters that a decision is about. Ids that were given are
// wanted whatever their state, so that each gets an answer.
func (f *letterFlags) chosen(cmd *cobra.Command, s *cursor.Store) ([]cursor.DeadLetter, error) {
	if !f.narrows() {
		return nil, usage(fmt.Errorf("%s wants to know which: --id, --consumer, --run, --type, --class, --since or --until", cmd.CommandPath()))
	}
	if len(f.ids) > 0 && !cmd.Flags().Changed("state") {
		f.state = "all"
	}
	list, err := f.find(cmd, s)
	if err != nil {
		return nil, err
	}
	found := map[int64]bool{}
	for _, d := range list {
		found[d.ID] = true
	}
	for _, id := range f.ids {
		if !found[id] {
			return nil, usage(withHint(fmt.Errorf("there is no dead letter %d of that kind", id), "`exporter deadletter list --state all` shows them"))
		}
	}
	return list, nil
}

func discard(ctx context.Context, p *process, s *cursor.Store, list []cursor.DeadLetter, r *review, asJSON bool) error {
	var ids []int64
	answers := newLetterAnswers()
	for i := range list {
		d := &list[i]
		if !d.Undecided() {
			answers.add(d, answerRefused, "it is "+d.State+" already")
			continue
		}
		ids = append(ids, d.ID)
	}
	if len(ids) > 0 {
		if ok, err := r.mayGo(p, planOf("discard", list, ""), len(ids)); err != nil || !ok {
			return err
		}
		done, err := s.Discard(ctx, ids, r.Reviewed)
		if err != nil {
			return err
		}
		answers.addAll(list, ids, done, answerDiscarded, "a replay has it, or somebody was faster; look at it again")
	}
	return answers.print(p, asJSON)
}

const purgeHelp = `Delete dead letters that were replayed or discarded long ago. Those that still
wait are never deleted.`

func newDeadLetterPurgeCommand(p *process) *cobra.Command {
	var r review
	var consumer string
	var before string
	cmd := &cobra.Command{
		Use:     "purge --decided-before AGE",
		Short:   "Delete dead letters that were decided long ago",
		Long:    purgeHelp,
		Example: `  exporter deadletter purge --decided-before 90d --reviewed-by eve --reason "our retention" --yes`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.validate(cmd); err != nil {
				return err
			}
			age, err := parseDuration(before)
			if err != nil {
				return usage(fmt.Errorf("--decided-before %w", err))
			}
			return p.withStore(cmd.Context(), func(s *cursor.Store, _ DatabaseConfig) error {
				return purge(cmd.Context(), p, s, consumer, age, &r)
			})
		},
	}
	r.flags(cmd)
	cmd.Flag("yes").Usage = "do it; needed for every deletion"
	cmd.Flags().StringVar(&consumer, "consumer", "", "of this consumer")
	cmd.Flags().StringVar(&before, "decided-before", "", "how long ago they were decided at least, such as 90d (required)")
	return cmd
}

func purge(ctx context.Context, p *process, s *cursor.Store, consumer string, age time.Duration, r *review) error {
	n, err := s.PurgeLetters(ctx, consumer, age, true, r.Reviewed)
	if err != nil {
		return err
	}
	if n == 0 {
		return say(p, "nothing to delete: no dead letter was decided so long ago")
	}
	// Deleting always wants --yes: what is deleted cannot be looked at again.
	if ok, err := r.mayGo(p, fmt.Sprintf("would delete %s", plural(n, "decided dead letter")), 2); err != nil || !ok {
		return err
	}
	if n, err = s.PurgeLetters(ctx, consumer, age, false, r.Reviewed); err != nil {
		return err
	}
	return say(p, "deleted %s", plural(n, "decided dead letter"))
}
