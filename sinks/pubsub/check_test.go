package pubsub

import (
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// expectFinding wants a finding of the level whose text or hint has the words.
func expectFinding(t *testing.T, findings []Finding, level, words string) {
	t.Helper()
	if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Level == level && strings.Contains(f.Text+" "+f.Hint, words) }) {
		t.Errorf("no finding %s %q in %+v", level, words, findings)
	}
}

func TestCheck(t *testing.T) {
	server := newServer(t, "events")
	s := open(t, Config{Topic: "events"})
	findings := s.Check(t.Context())
	expectFinding(t, findings, LevelOK, "exists")
	expectFinding(t, findings, LevelOK, "knows no permissions")
	expectFinding(t, findings, LevelWarn, "no subscription")
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
	findings = s.Check(t.Context())
	expectFinding(t, findings, LevelWarn, "mixed does not keep the order")
	if slices.ContainsFunc(findings, func(f Finding) bool { return strings.Contains(f.Text, "/ordered") }) {
		t.Errorf("the ordered subscription is complained of: %+v", findings)
	}

	server.setGrants([]string{"pubsub.topics.publish"})
	expectFinding(t, s.Check(t.Context()), LevelOK, "may publish")
	server.setGrants([]string{})
	expectFinding(t, s.Check(t.Context()), LevelFail, "roles/pubsub.publisher")
}

func (s *server) setGrants(permissions []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grants = permissions
}

func TestCheckWithoutTopicOrServer(t *testing.T) {
	server := newServer(t)
	s := open(t, Config{Topic: "events"})
	expectFinding(t, s.Check(t.Context()), LevelFail, "create the topic")
	server.stop()
	findings := s.Check(t.Context())
	if len(findings) != 1 {
		t.Errorf("%+v", findings)
	}
	expectFinding(t, findings, LevelFail, "Unavailable")
}

func TestCheckRegion(t *testing.T) {
	t.Setenv("PUBSUB_EMULATOR_HOST", "")
	regions := func(names ...string) *pubsubpb.Topic {
		return &pubsubpb.Topic{MessageStoragePolicy: &pubsubpb.MessageStoragePolicy{AllowedPersistenceRegions: names}}
	}
	for _, c := range []struct {
		endpoint string
		topic    *pubsubpb.Topic
		level    string
	}{
		{"", &pubsubpb.Topic{}, LevelWarn},
		{"", regions("europe-west1", "europe-west4"), LevelWarn},
		{"pubsub.googleapis.com:443", &pubsubpb.Topic{}, LevelWarn},
		{"", regions("europe-west1"), LevelOK},
		{"europe-west1-pubsub.googleapis.com:443", &pubsubpb.Topic{}, LevelOK},
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
	for _, f := range open(t, Config{Topic: "events"}).Check(t.Context()) {
		if f.Level != LevelOK {
			t.Errorf("%+v", f)
		}
	}
}
