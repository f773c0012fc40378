package pubsub

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// Config says where messages go and how much may be under way.
type Config struct {
	Project string // id or number of the topic's project; may be empty where Topic is a full name
	Topic   string // id of the topic, or its full name projects/…/topics/…

	Endpoint        string // host:port to use in place of pubsub.googleapis.com:443; ordering holds within one region
	CredentialsFile string // JSON credentials; empty finds them by Google's own rules

	MaxOutstandingBytes int64         // of all requests under way, 10 MB to 1 GB; 0 means 20 MB
	MaxRequests         int           // under way at a time, 1 to 1,000; 0 means 100
	RequestTimeout      time.Duration // for an answer to one request, a second to ten minutes; 0 means a minute
}

// Bounds and defaults of a Config.
const (
	defaultOutstandingBytes = 20_000_000
	minOutstandingBytes     = pubsub.MaxPublishRequestBytes
	maxOutstandingBytes     = 1_000_000_000
	defaultRequests         = 100
	maxRequests             = 1000
	defaultRequestTimeout   = time.Minute
	minRequestTimeout       = time.Second
	maxRequestTimeout       = 10 * time.Minute
)

// reconnect keeps a client from waiting for minutes when its server is back.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 500 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
	MinConnectTimeout: 10 * time.Second,
}

var (
	topicName = regexp.MustCompile(`^projects/([^/\s]+)/topics/([^/\s]+)$`)
	topicID   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._~+%-]{2,254}$`)
	projectID = regexp.MustCompile(`^[a-z0-9][a-z0-9.:-]*$`)
)

// withDefaults returns the configuration with every value set, Project and
// Topic as ids. The error lists all that is wrong.
func (c Config) withDefaults() (Config, error) {
	if m := topicName.FindStringSubmatch(c.Topic); m != nil {
		if c.Project != "" && c.Project != m[1] {
			return c, fmt.Errorf("topic %s is not in project %s: set only one of …_PUBSUB_PROJECT and the topic's full name", c.Topic, c.Project)
		}
		c.Project, c.Topic = m[1], m[2]
	}
	if c.MaxOutstandingBytes == 0 {
		c.MaxOutstandingBytes = defaultOutstandingBytes
	}
	if c.MaxRequests == 0 {
		c.MaxRequests = defaultRequests
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = defaultRequestTimeout
	}
	return c, c.validate()
}

func (c Config) validate() error {
	var problems []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	refuse(!projectID.MatchString(c.Project), "project %q is no project id: set …_PUBSUB_PROJECT", c.Project)
	refuse(!topicID.MatchString(c.Topic) || strings.HasPrefix(c.Topic, "goog"),
		"topic %q is no topic id: set …_PUBSUB_TOPIC to 3 to 255 letters, digits or -._~+%%, a letter first and not goog", c.Topic)
	refuse(strings.Contains(c.Endpoint, "/"), "endpoint %q is not host:port: set …_PUBSUB_ENDPOINT to one such as europe-west1-pubsub.googleapis.com:443", c.Endpoint)
	refuse(c.MaxOutstandingBytes < minOutstandingBytes || c.MaxOutstandingBytes > maxOutstandingBytes,
		"%d bytes under way are not between %d and %d", c.MaxOutstandingBytes, int64(minOutstandingBytes), maxOutstandingBytes)
	refuse(c.MaxRequests < 1 || c.MaxRequests > maxRequests, "%d requests under way are not between 1 and %d", c.MaxRequests, maxRequests)
	refuse(c.RequestTimeout < minRequestTimeout || c.RequestTimeout > maxRequestTimeout,
		"request timeout %v is not between %v and %v", c.RequestTimeout, minRequestTimeout, maxRequestTimeout)
	return errors.Join(problems...)
}

func (c Config) topic() string { return "projects/" + c.Project + "/topics/" + c.Topic }

// options are the client's. The library does not want credentials for its
// emulator.
func (c Config) options() ([]option.ClientOption, error) {
	options := []option.ClientOption{option.WithTelemetryDisabled(), option.WithGRPCDialOption(grpc.WithConnectParams(reconnect))}
	if os.Getenv("PUBSUB_EMULATOR_HOST") != "" {
		return options, nil
	}
	if c.Endpoint != "" {
		options = append(options, option.WithEndpoint(c.Endpoint))
	}
	if c.CredentialsFile != "" {
		credentials, err := readCredentials(c.CredentialsFile)
		if err != nil {
			return nil, err
		}
		options = append(options, credentials)
	}
	return options, nil
}

// readCredentials reads the file at once, so that a wrong one is noticed. What
// is in it stays out of the error.
func readCredentials(file string) (option.ClientOption, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read …_PUBSUB_CREDENTIALS_FILE: %w", err)
	}
	var head struct {
		Type option.CredentialsType `json:"type"`
	}
	known := []option.CredentialsType{option.ServiceAccount, option.AuthorizedUser, option.ImpersonatedServiceAccount, option.ExternalAccount}
	if json.Unmarshal(data, &head) != nil || !slices.Contains(known, head.Type) {
		return nil, fmt.Errorf("…_PUBSUB_CREDENTIALS_FILE %s holds no JSON object whose type is one of %q", file, known)
	}
	return option.WithAuthCredentialsJSON(head.Type, data), nil
}
