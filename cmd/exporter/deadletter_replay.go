package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/docket-exporter/exporter/cursor"
	"github.com/docket-exporter/exporter/sinks/file"
	"github.com/docket-exporter/exporter/sources/docket"
)

const replayHelp = `Send dead letters once more through their consumer's own sink, with the same
identity, and say for each what came of it. It needs the consumer's variables, as
run does, and works beside a running exporter: it claims the letters, not the
consumer.

Letters of a run go in seq order. Once the letter that holds a run is accepted,
the events held behind it follow by themselves. A letter that the sink rejects
again stays, and so does what is held behind it.

A replay that is killed leaves its letters claimed for two minutes. Then they
can be replayed again; what the sink had accepted already comes a second time,
with the same identity.`

func newDeadLetterReplayCommand(p *process) *cobra.Command {
	var which letterFlags
	var r review
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Send dead letters once more",
		Long:  replayHelp,
		Example: `  exporter deadletter replay --consumer analytics --class too_large --dry-run --reviewed-by eve --reason "limit raised"
  exporter deadletter replay --run order-7 --reviewed-by eve --reason "column widened" --yes`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.validate(cmd); err != nil {
				return err
			}
			c, err := loadConfig(p.env)
			if err != nil {
				return err
			}
			return p.withStore(cmd.Context(), func(s *cursor.Store, _ DatabaseConfig) error {
				list, err := which.chosen(cmd, s)
				if err != nil {
					return err
				}
				return replayLetters(cmd.Context(), p, s, c, list, &r, asJSON)
			})
		},
	}
	which.flags(cmd, defaultLetters)
	r.flags(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func replayLetters(ctx context.Context, p *process, s *cursor.Store, c Config, list []cursor.DeadLetter, r *review, asJSON bool) error {
	answers := newLetterAnswers()
	waiting := slices.DeleteFunc(slices.Clone(list), func(d cursor.DeadLetter) bool {
		if !d.Undecided() {
			answers.add(&d, answerRefused, "it is "+d.State+" already")
		}
		return !d.Undecided()
	})
	c, err := withBackfills(ctx, s, c, consumersOf(waiting))
	if err != nil {
		return err
	}
	for _, d := range waiting {
		if consumerConfig(c, d.Consumer) == nil {
			return usage(fmt.Errorf("dead letter %d is of consumer %s, which EXPORTER_CONSUMERS does not name; replay needs its variables to know the sink", d.ID, d.Consumer))
		}
	}
	if len(waiting) > 0 {
		held, err := s.HeldBehind(ctx, idsOf(waiting))
		if err != nil {
			return err
		}
		held = slices.DeleteFunc(held, func(id int64) bool { return slices.Contains(idsOf(waiting), id) })
		more := ""
		if len(held) > 0 {
			more = fmt.Sprintf(", and then %s held behind", plural(int64(len(held)), "event"))
		}
		if ok, err := r.mayGo(p, planOf("replay", waiting, more), len(waiting)+len(held)); err != nil || !ok {
			return err
		}
	}
	by := "replay on " + replicaName() + " " + rand.Text()
	for len(waiting) > 0 && ctx.Err() == nil {
		name := waiting[0].Consumer
		n := slices.IndexFunc(waiting, func(d cursor.DeadLetter) bool { return d.Consumer != name })
		if n < 0 {
			n = len(waiting)
		}
		if err := replayConsumer(ctx, p, s, c, *consumerConfig(c, name), waiting[:n], by, r, answers); err != nil {
			return errors.Join(err, answers.print(p, asJSON))
		}
		waiting = waiting[n:]
	}
	return answers.print(p, asJSON)
}

// consumersOf names the consumers of some letters, each once.
func consumersOf(letters []cursor.DeadLetter) (names []string) {
	for i := range letters {
		if name := letters[i].Consumer; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func consumerConfig(c Config, name string) *ConsumerConfig {
	for i := range c.Consumers {
		if c.Consumers[i].Name == name {
			return &c.Consumers[i]
		}
	}
	return nil
}

// replayConsumer sends the letters of one consumer through a sink of its own.
func replayConsumer(ctx context.Context, p *process, s *cursor.Store, c Config, consumer ConsumerConfig,
	letters []cursor.DeadLetter, by string, r *review, answers *letterAnswers,
) (err error) {
	log := p.logger(c.Log).With("consumer", consumer.Name)
	sink, err := openReplaySink(ctx, consumer, log)
	if err != nil {
		return usage(fmt.Errorf("%s: %w", consumer.sinkVariables(), err))
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	replay := &replayer{
		store: s, consumer: consumer, sink: p.pipes.wrapSink(sink), by: by, reviewed: r.Reviewed, answers: answers, log: log,
		render: rendererOf(consumer),
	}
	return replay.run(ctx, letters)
}

// openReplaySink opens a consumer's sink beside its owner.
func openReplaySink(ctx context.Context, c ConsumerConfig, log *slog.Logger) (sink, error) {
	if c.Sink == SinkFile { // whose segments have one writer
		return opened(file.OpenReplay(c.File.sink(), c.Name))
	}
	return openSink(ctx, c, namesUsed{}, log)
}

// whole renders events with all of their payload.
var whole = docket.Renderer{}

// rendererOf renders events as the consumer's source does.
func rendererOf(c ConsumerConfig) docket.Renderer {
	return docket.Renderer{PayloadKeys: c.Payload.Keys, NoPayload: !c.Payload.Full && len(c.Payload.Keys) == 0}
}
