package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Format is the form of a request's body.
type Format string

// The formats.
const (
	FormatJSON        Format = "json"        // the event's JSON object, as in exporter.Event.AppendJSON
	FormatCloudEvents Format = "cloudevents" // the same within a CloudEvents 1.0 structured envelope
)

// Config says where events go and how.
type Config struct {
	// URL is the receiver's, http or https. It may hold a user and password,
	// and is treated as a secret as a whole.
	URL string
	// Secrets are the signing secrets, whsec_ and base64. Every request is
	// signed with each of them, so that a receiver may know either while one is
	// being replaced. At least one.
	Secrets []string
	// Authorization is the value of the header Authorization; empty for none.
	Authorization string
	// Format of the body; empty means FormatJSON.
	Format Format
	// Source is the CloudEvents attribute of that name, a URI reference; empty
	// means /docket.
	Source string
	// Concurrency is how many runs are sent at once; 0 means 10.
	Concurrency int
	// Timeout bounds one request, connecting included; 0 means 30 s.
	Timeout time.Duration
	// MaxEventBytes is the largest body in bytes that is sent; a larger event is
	// rejected as too_large. 0 means 4 MiB.
	MaxEventBytes int
	// AllowPrivate are the networks that may be dialled although they are not
	// public. Addresses of metadata services are refused whatever it says.
	AllowPrivate []netip.Prefix
	// TLS has the files of a private CA and of a client certificate.
	TLS TLS
}

const (
	defaultConcurrency = 10
	defaultTimeout     = 30 * time.Second
	defaultMaxBytes    = 4 << 20
	defaultSource      = "/docket"
)

func (c Config) withDefaults() Config {
	if c.Format == "" {
		c.Format = FormatJSON
	}
	if c.Source == "" {
		c.Source = defaultSource
	}
	if c.Concurrency <= 0 {
		c.Concurrency = defaultConcurrency
	}
	if c.Timeout <= 0 {
		c.Timeout = defaultTimeout
	}
	if c.MaxEventBytes <= 0 {
		c.MaxEventBytes = defaultMaxBytes
	}
	return c
}

// address reads URL. Its errors do not repeat it.
func (c Config) address() (*url.URL, error) {
	if c.URL == "" {
		return nil, errors.New("no receiver is set: set the consumer's …_WEBHOOK_URL")
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("…_WEBHOOK_URL cannot be read: it must look like https://receiver.example/docket")
	case u.Fragment != "":
		return nil, errors.New("…_WEBHOOK_URL has a fragment (#…), which no request carries: remove it")
	case metadataName(u.Hostname()):
		return nil, fmt.Errorf("…_WEBHOOK_URL names the metadata service %s, which is never dialled: name the receiver", u.Hostname())
	}
	return u, nil
}

func (c Config) validate() error {
	if c.Format != FormatJSON && c.Format != FormatCloudEvents {
		return fmt.Errorf("…_WEBHOOK_FORMAT is %q: write %s or %s", c.Format, FormatJSON, FormatCloudEvents)
	}
	if strings.ContainsFunc(c.Authorization, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
		return errors.New("…_WEBHOOK_AUTHORIZATION has characters that no header can carry: use printable ASCII on one line")
	}
	return nil
}
