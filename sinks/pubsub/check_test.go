package pubsub

import (
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/docket-exporter/exporter"
	"google.golang.org/protobuf/types/known/durationpb"
)

// expectFinding wants a finding of the level whose text or hint has the words.
func expectFinding(t *testing.T, findings []exporter.Finding, level exporter.Level, words string) {
	t.Helper()
	if !slices.ContainsFunc(findings, func(f exporter.Finding) bool { return f.Level == level && strings.Contains(f.Text+" "+f.Hint, words) }) {
		t.Errorf("no finding %s %q in %+v", level, words, findings)
	}
}

func check(t *testing.T, s *Sink) []exporter.Finding {
	t.Helper()
	findings, err := s.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

func TestCheck(t *testing.T) {
	server := newServer(t, "events")
	s := open(t, Config{Topic: "events"})
	findings := check(t, s)
	expectFinding(t, findings, exporter.LevelOK, "exists")
	expectFinding(t, findings, exporter.LevelOK, "knows no permissions")
	expectFinding(t, findings, exporter.LevelWarn, "no subscription")
	if len(server.seen()) != 0 {
		t.Error("the check has published")
	}

	for id, ordered := range map[string]bool{"ordered": true, "mixed": false} {
		_, err := server.fake.GServer.CreateSubscription(t.Context(), &pubsubpb.Subscription{
			Name: "projects/" + project + "/subscriptions/" + id, Topic: name("events"), EnableMessageOrdering: ordered, AckDeadlineSeconds: 10,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	findings = check(t, s)
	expectFinding(t, findings, exporter.LevelWarn, "mixed does not keep the order")
	if slices.ContainsFunc(findings, func(f exporter.Finding) bool { return strings.Contains(f.Text, "/ordered") }) {
		t.Errorf("the ordered subscription is complained of: %+v", findings)
	}

	server.setGrants([]string{"pubsub.topics.publish"})
	expectFinding(t, check(t, s), exporter.LevelOK, "may publish")
	server.setGrants([]string{})
	expectFinding(t, check(t, s), exporter.LevelFail, "roles/pubsub.publisher")
}

func (s *server) setGrants(permissions []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grants = permissions
}

func TestCheckWithoutTopicOrServer(t *testing.T) {
	server := newServer(t)
	s := open(t, Config{Topic: "events"})
	expectFinding(t, check(t, s), exporter.LevelFail, "create the topic")
	server.stop()
	findings := check(t, s)
	if len(findings) != 1 {
		t.Errorf("%+v", findings)
	}
	expectFinding(t, findings, exporter.LevelFail, "Unavailable")
}

func TestCheckRegion(t *testing.T) {
	t.Setenv("PUBSUB_EMULATOR_HOST", "")
	regions := func(names ...string) *pubsubpb.Topic {
		return &pubsubpb.Topic{MessageStoragePolicy: &pubsubpb.MessageStoragePolicy{AllowedPersistenceRegions: names}}
	}
	for _, c := range []struct {
		endpoint string
		topic    *pubsubpb.Topic
		level    exporter.Level
	}{
		{"", &pubsubpb.Topic{}, exporter.LevelWarn},
		{"", regions("europe-west1", "europe-west4"), exporter.LevelWarn},
		{"pubsub.googleapis.com:443", &pubsubpb.Topic{}, exporter.LevelWarn},
		{"", regions("europe-west1"), exporter.LevelOK},
		{"europe-west1-pubsub.googleapis.com:443", &pubsubpb.Topic{}, exporter.LevelOK},
	} {
		s := &Sink{cfg: Config{Endpoint: c.endpoint}}
		if got := s.checkRegion(c.topic); got.Level != c.level {
			t.Errorf("endpoint %q, %v: %+v", c.endpoint, c.topic, got)
		}
	}
	if got := checkSchema(&pubsubpb.Topic{SchemaSettings: &pubsubpb.SchemaSettings{Schema: "projects/p/schemas/s"}}); len(got) != 1 {
		t.Errorf("a schema: %+v", got)
	}
}

func TestTopicThatRetainsNeedsNoSubscription(t *testing.T) {
	server := newServer(t)
	_, err := server.fake.GServer.CreateTopic(t.Context(), &pubsubpb.Topic{Name: name("events"), MessageRetentionDuration: durationpb.New(86_400_000_000_000)})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range check(t, open(t, Config{Topic: "events"})) {
		if f.Level != exporter.LevelOK {
			t.Errorf("%+v", f)
		}
	}
}
