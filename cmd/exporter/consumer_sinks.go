package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/docket-exporter/exporter/sinks/clickhouse"
	"github.com/docket-exporter/exporter/sinks/pubsub"
)

// SinkKind names a sink.
type SinkKind string

// The sinks that exist.
const (
	SinkFile       SinkKind = "file"       // JSON lines in a directory
	SinkClickHouse SinkKind = "clickhouse" // rows of a table
	SinkPubSub     SinkKind = "pubsub"     // messages of a Google Cloud Pub/Sub topic
	SinkWebhook    SinkKind = "webhook"    // signed HTTP requests
)

// UnmarshalText reads the name of a sink that exists.
func (k *SinkKind) UnmarshalText(text []byte) error {
	switch SinkKind(text) {
	case SinkFile, SinkClickHouse, SinkPubSub, SinkWebhook:
		*k = SinkKind(text)
		return nil
	}
	return fmt.Errorf("%q is not a sink; write %s, %s, %s or %s", text, SinkFile, SinkClickHouse, SinkPubSub, SinkWebhook)
}

// FileConfig is the sink file: JSON lines in a directory.
type FileConfig struct {
	Dir          string   `env:"DIR" docDefault:"required for the sink file" desc:"Directory of the JSON-lines files. It must exist; replicas need the same one." example:"/var/lib/exporter"`
	SegmentBytes Size     `env:"SEGMENT_BYTES" envDefault:"256MiB" desc:"A file is finished once it is larger than this."`
	SegmentAge   Duration `env:"SEGMENT_AGE" envDefault:"1h" desc:"A file is finished once it is older than this."`
}

// ClickHouseConfig is the sink clickhouse: rows of a table.
type ClickHouseConfig struct {
	DSN           Secret `env:"DSN" secret:"true" docDefault:"required for the sink clickhouse" desc:"Servers, database, user and password, as clickhouse:// or https:// URL." example:"clickhouse://exporter@ch1:9000,ch2:9000/analytics"`
	Table         string `env:"TABLE" envDefault:"docket_events" desc:"Table that gets the events, as table or database.table."`
	CreateTable   bool   `env:"CREATE_TABLE" envDefault:"false" desc:"Make the default table if it is missing. exporter check --print-ddl shows it."`
	MaxEventBytes Size   `env:"MAX_EVENT_BYTES" envDefault:"64MiB" desc:"Largest payload and metadata of an event as JSON; a larger event becomes a dead letter."`
	CAFile        string `env:"TLS_CA_FILE" docDefault:"the system's" desc:"PEM file of a private certificate authority. Turns TLS on; read again for every connection."`
	CertFile      string `env:"TLS_CERT_FILE" desc:"PEM file of our certificate, for servers that ask for one."`
	KeyFile       string `env:"TLS_KEY_FILE" desc:"PEM file of its key."`
}

// PubSubConfig is the sink pubsub: messages of a topic.
type PubSubConfig struct {
	Project         string `env:"PROJECT" docDefault:"from a full topic name" desc:"Project of the topic."`
	Topic           string `env:"TOPIC" docDefault:"required for the sink pubsub" desc:"Topic that gets the events: its id, or projects/…/topics/…." example:"docket-events"`
	Endpoint        string `env:"ENDPOINT" docDefault:"pubsub.googleapis.com:443" desc:"host:port to publish to. Order per run holds within one region."`
	CredentialsFile string `env:"CREDENTIALS_FILE" docDefault:"found by Google's own rules" desc:"File with JSON credentials."`
}

// Secret is a text that no message may repeat.
type Secret struct{ text string }

// UnmarshalText takes the text.
func (s *Secret) UnmarshalText(text []byte) error {
	s.text = strings.TrimSpace(string(text))
	return nil
}

// Reveal returns the text, for the one place that needs it.
func (s Secret) Reveal() string { return s.text }

func (s Secret) String() string { return "***" }

// GoString hides the text from %#v.
func (s Secret) GoString() string { return "***" }

// LogValue hides the text from logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue("***") }

// MarshalText hides the text from JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }

func (c *ConsumerConfig) validate(ps *problems) {
	prefix := c.Prefix()
	switch c.Sink {
	case SinkFile:
		if c.File.Dir == "" {
			ps.add(prefix+"FILE_DIR", "is not set; give the directory for the files, such as /var/lib/exporter")
		}
		ps.atLeast(prefix+"FILE_SEGMENT_AGE", c.File.SegmentAge, time.Second)
	case SinkClickHouse:
		if c.ClickHouse.DSN.Reveal() == "" {
			ps.add(prefix+"CLICKHOUSE_DSN", "is not set; give servers and database, such as clickhouse://exporter@ch1:9000/analytics")
		}
		if (c.ClickHouse.CertFile == "") != (c.ClickHouse.KeyFile == "") {
			ps.add(prefix+"CLICKHOUSE_TLS_CERT_FILE", "and %sCLICKHOUSE_TLS_KEY_FILE belong together; set both or none", prefix)
		}
	case SinkPubSub:
		if c.PubSub.Topic == "" {
			ps.add(prefix+"PUBSUB_TOPIC", "is not set; give the topic, such as docket-events")
		}
	case SinkWebhook:
		c.validateWebhook(ps)
	}
}

// sinkVariables names the variables that say where a consumer's sink is.
func (c *ConsumerConfig) sinkVariables() string {
	switch c.Sink {
	case SinkClickHouse:
		return c.Prefix() + "CLICKHOUSE_…"
	case SinkPubSub:
		return c.Prefix() + "PUBSUB_…"
	case SinkWebhook:
		return c.Prefix() + "WEBHOOK_…"
	default:
		return c.Prefix() + "FILE_DIR"
	}
}

// shape is what of an event a sink is given; part of the request token.
func (c *ConsumerConfig) shape() string {
	switch {
	case c.Payload.Full:
		return "full"
	case len(c.Payload.Keys) == 0:
		return "none"
	default:
		return "keys " + strings.Join(c.Payload.Keys, ",")
	}
}

func (c ClickHouseConfig) sink(log *slog.Logger) clickhouse.Config {
	return clickhouse.Config{
		DSN: c.DSN.Reveal(), Table: c.Table, CreateTable: c.CreateTable, MaxEventBytes: int(c.MaxEventBytes), Log: log,
		TLS: clickhouse.TLS{CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile},
	}
}

func (c PubSubConfig) sink() pubsub.Config {
	return pubsub.Config{Project: c.Project, Topic: c.Topic, Endpoint: c.Endpoint, CredentialsFile: c.CredentialsFile}
}

var errNoSink = errors.New("no such sink")

// nameVariables writes out the variables that a sink, which does not know how its
// consumer is called, has named …_WEBHOOK_URL.
func (c *ConsumerConfig) nameVariables(text string) string {
	for _, kind := range []SinkKind{SinkFile, SinkClickHouse, SinkPubSub, SinkWebhook} {
		own := strings.ToUpper(string(kind)) + "_"
		text = strings.ReplaceAll(text, "…_"+own, c.Prefix()+own)
	}
	return text
}
