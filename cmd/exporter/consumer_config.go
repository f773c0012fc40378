package main

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// ConsumerConfig is one consumer: a sink, a filter and how its batches are cut.
// Variables are CONSUMER_<NAME>_ and the tag.
type ConsumerConfig struct {
	Name       string // as in EXPORTER_CONSUMERS
	StartGiven bool   // START is set, so that a new history is meant

	Of   string   // of a backfill: the consumer whose variables these are
	Runs Patterns // of a backfill: which runs

	Sink  SinkKind `env:"SINK,required" desc:"Where the events go: file, clickhouse, pubsub or webhook." example:"file"`
	Start Start    `env:"START" envDefault:"earliest" docDefault:"earliest" desc:"Where a new consumer begins: earliest, latest, a position such as 120345, id:120345, time:2026-11-29T08:00:00Z, run:RUN_ID or run:RUN_ID/SEQ. Ignored once the consumer has a cursor."`

	Types   Patterns `env:"TYPES" docDefault:"all" desc:"Event types to export, separated by commas. * at the end stands for any ending, ! in front excludes."`
	Tenants Patterns `env:"TENANTS" docDefault:"all" desc:"Tenants to export, written as for TYPES."`
	Graphs  Patterns `env:"GRAPHS" docDefault:"all" desc:"Graph ids to export, written as for TYPES."`

	BatchEvents Count        `env:"BATCH_EVENTS" envDefault:"10000" docDefault:"10000; 15000 for clickhouse, 500 for webhook" desc:"Most events in a batch."`
	BatchBytes  Size         `env:"BATCH_BYTES" envDefault:"6MiB" docDefault:"6MiB; 8MiB for clickhouse, 3MiB for pubsub" desc:"Most bytes of payload and metadata in a batch; a single larger event is still delivered."`
	Linger      Duration     `env:"LINGER" docDefault:"0s; 1s for clickhouse" desc:"How long a batch that is not full waits for more events."`
	MaxAttempts Count        `env:"MAX_ATTEMPTS" envDefault:"10" desc:"Attempts at a batch before an event that the sink refuses alone, while it accepts others, becomes a dead letter."`
	MaxAge      Duration     `env:"MAX_AGE" docDefault:"none" desc:"An event that occurred longer ago when it is to be sent is not sent, but kept as a dead letter of class expired. Judged at every attempt, by this machine's clock."`
	OnLoss      LossPolicy   `env:"ON_LOSS" envDefault:"continue" desc:"What happens once events may be lost, because retention deleted them before they were read: continue goes on, halt pauses before anything behind them is delivered, until cursor accept-loss. Either way the loss is recorded."`
	OnPoison    PoisonPolicy `env:"ON_POISON" envDefault:"dead_letter" desc:"What happens behind an event that becomes a dead letter: dead_letter delivers the later events of its run, hold_run keeps them as dead letters too, until a person has decided."`
	MaxLetters  Limit        `env:"MAX_DEAD_LETTERS" envDefault:"100" desc:"Most dead letters in an hour, expired and held ones not counted; one more pauses the consumer instead, and nothing is skipped. off for no limit."`
	Payload     Payload      `env:"PAYLOAD" envDefault:"full" desc:"What of the payload is exported: full, none, or the names of top-level keys separated by commas."`

	File       FileConfig       `envPrefix:"FILE_"`
	ClickHouse ClickHouseConfig `envPrefix:"CLICKHOUSE_"`
	PubSub     PubSubConfig     `envPrefix:"PUBSUB_"`
	Webhook    WebhookConfig    `envPrefix:"WEBHOOK_"`
}

// Prefix is what the consumer's variables begin with.
func (c *ConsumerConfig) Prefix() string { return consumerPrefix(cmp.Or(c.Of, c.Name)) }

// ConsumerNames are the consumers to run.
type ConsumerNames []string

// consumerName leaves out '-', so that a name can be part of a variable's name
// and is followed unambiguously by '-' in file names, which hold 255 bytes.
var consumerName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,99}$`)

// nameForm is what consumerName wants, for errors.
const nameForm = "use a lower-case letter followed by lower-case letters, digits and underscores, at most 100 of them"

// UnmarshalText reads names separated by commas.
func (n *ConsumerNames) UnmarshalText(text []byte) error {
	seen := make(map[string]bool)
	for name := range strings.SplitSeq(string(text), ",") {
		name = strings.TrimSpace(name)
		switch {
		case name == "":
			continue
		case !consumerName.MatchString(name):
			return fmt.Errorf("%q is not a consumer name; %s", name, nameForm)
		case seen[name]:
			return fmt.Errorf("%q is named twice; name every consumer once", name)
		}
		seen[name] = true
		*n = append(*n, name)
	}
	if err := ambiguous(*n); err != nil {
		return err
	}
	if len(*n) == 0 {
		return fmt.Errorf("names no consumer; write names separated by commas, such as analytics,feed")
	}
	return nil
}

// ambiguous refuses two names of which one followed by a variable begins like
// the other: with feed and feed_file, CONSUMER_FEED_FILE_DIR would be both the
// directory of feed and an unknown DIR of feed_file.
func ambiguous(names []string) error {
	for _, short := range names {
		for _, long := range names {
			for _, end := range spellings("", consumerVariables()) {
				if whole := consumerPrefix(short) + end; short != long && strings.HasPrefix(long, short+"_") && strings.HasPrefix(whole, consumerPrefix(long)) {
					return fmt.Errorf("names %s and %s, between which %s is ambiguous; rename one of them", short, long, whole)
				}
			}
		}
	}
	return nil
}

func consumerPrefix(name string) string { return "CONSUMER_" + strings.ToUpper(name) + "_" }
