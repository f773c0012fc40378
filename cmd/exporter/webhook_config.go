package main

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/docket-exporter/exporter/sinks/webhook"
)

// WebhookConfig is the sink webhook: a signed request for each event.
type WebhookConfig struct {
	URL           Secret        `env:"URL" secret:"true" docDefault:"required for the sink webhook" desc:"Receiver of the events. It may hold a user, a password or a token." example:"https://receiver.example/docket"`
	Secrets       Secret        `env:"SECRETS" secret:"true" docDefault:"required for the sink webhook" desc:"Signing secrets, each whsec_ and base64 of at least 24 bytes, separated by commas. Each request is signed with all of them, so that they can be replaced."`
	Authorization Secret        `env:"AUTHORIZATION" secret:"true" docDefault:"none" desc:"Value of the header Authorization, such as Bearer and a token."`
	Format        WebhookFormat `env:"FORMAT" envDefault:"json" desc:"Body of a request: json, the event as it is, or cloudevents, within a CloudEvents 1.0 envelope."`
	Source        string        `env:"SOURCE" envDefault:"/docket" desc:"The attribute source of the CloudEvents envelope."`
	Concurrency   Count         `env:"CONCURRENCY" envDefault:"10" desc:"How many runs are sent at once. The events of a run are sent one after the other."`
	Timeout       Duration      `env:"TIMEOUT" envDefault:"30s" desc:"How long an answer is waited for. At least 100ms."`
	MaxEventBytes Size          `env:"MAX_EVENT_BYTES" envDefault:"4MiB" desc:"Largest body of a request; a larger event becomes a dead letter."`
	AllowPrivate  Networks      `env:"ALLOW_PRIVATE" docDefault:"none" desc:"Networks that may be dialled although they are not public, such as 10.0.0.0/8,fd00::/8, or true for all of them. Metadata services are never dialled."`
	CAFile        string        `env:"TLS_CA_FILE" docDefault:"the system's" desc:"PEM file of a private certificate authority; read again for every connection."`
	CertFile      string        `env:"TLS_CERT_FILE" desc:"PEM file of our certificate, for receivers that ask for one."`
	KeyFile       string        `env:"TLS_KEY_FILE" desc:"PEM file of its key."`
}

// WebhookFormat names the form of a request's body.
type WebhookFormat webhook.Format

// UnmarshalText reads json or cloudevents.
func (f *WebhookFormat) UnmarshalText(text []byte) error {
	switch format := webhook.Format(text); format {
	case webhook.FormatJSON, webhook.FormatCloudEvents:
		*f = WebhookFormat(format)
		return nil
	}
	return fmt.Errorf("%q is not a format; write %s or %s", text, webhook.FormatJSON, webhook.FormatCloudEvents)
}

// Networks are address ranges.
type Networks []netip.Prefix

// UnmarshalText reads networks separated by commas, or true for all there are.
func (n *Networks) UnmarshalText(text []byte) error {
	*n = nil
	switch string(text) {
	case "true":
		*n = Networks{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
		return nil
	case "false":
		return nil
	}
	for part := range strings.SplitSeq(string(text), ",") {
		part = strings.TrimSpace(part)
		p, err := netip.ParsePrefix(part)
		if addr, single := netip.ParseAddr(part); err != nil && single == nil {
			p, err = addr.Prefix(addr.BitLen())
		}
		if err != nil {
			return fmt.Errorf("%q is not a network; write networks such as 10.0.0.0/8 separated by commas, or true", part)
		}
		*n = append(*n, p.Masked())
	}
	return nil
}

func (c *ConsumerConfig) validateWebhook(ps *problems) {
	prefix := c.Prefix() + "WEBHOOK_"
	if c.Webhook.URL.Reveal() == "" {
		ps.add(prefix+"URL", "is not set; give the receiver, such as https://receiver.example/docket")
	}
	if c.Webhook.Secrets.Reveal() == "" {
		ps.add(prefix+"SECRETS", "is not set; give a signing secret: whsec_ followed by the output of openssl rand -base64 32")
	}
	if (c.Webhook.CertFile == "") != (c.Webhook.KeyFile == "") {
		ps.add(prefix+"TLS_CERT_FILE", "and %sTLS_KEY_FILE belong together; set both or none", prefix)
	}
	ps.atLeast(prefix+"TIMEOUT", c.Webhook.Timeout, 100*time.Millisecond)
}

func (c WebhookConfig) sink() webhook.Config {
	var secrets []string
	for secret := range strings.SplitSeq(c.Secrets.Reveal(), ",") {
		if secret = strings.TrimSpace(secret); secret != "" {
			secrets = append(secrets, secret)
		}
	}
	return webhook.Config{
		URL: c.URL.Reveal(), Secrets: secrets, Authorization: c.Authorization.Reveal(),
		Format: webhook.Format(c.Format), Source: c.Source,
		Concurrency: int(c.Concurrency), Timeout: c.Timeout.Value(), MaxEventBytes: int(c.MaxEventBytes),
		AllowPrivate: c.AllowPrivate,
		TLS:          webhook.TLS{CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile},
	}
}
