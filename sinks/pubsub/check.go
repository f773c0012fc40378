package pubsub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/docket-exporter/exporter"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// checkedSubscriptions is how many of a topic's subscriptions Check looks at.
const checkedSubscriptions = 20

// once makes a request without the library's own retries.
var once = gax.WithRetry(nil)

// Check looks at the topic without publishing: whether it exists and may be
// published to, whether the order of a run can hold, and whether anybody
// subscribes. What the exporter's identity may not look at is left out where
// nothing depends on it. It returns no error: what the service answers, and that
// it does not, is a finding.
func (s *Sink) Check(ctx context.Context) ([]exporter.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	topic, err := s.client.TopicAdminClient.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: s.topic}, once)
	switch status.Code(err) {
	case codes.OK:
		return append([]exporter.Finding{
			{Level: exporter.LevelOK, Text: "topic " + s.topic + " exists"}, s.checkPermission(ctx), s.checkRegion(topic),
		}, append(checkSchema(topic), s.checkSubscriptions(ctx, topic)...)...), nil
	case codes.PermissionDenied: // publishing needs less than looking
		return []exporter.Finding{s.checkPermission(ctx), {
			Level: exporter.LevelWarn, Text: "the settings of topic " + s.topic + " may not be read, so that its region and subscriptions are not checked",
			Hint: "give the exporter's identity roles/pubsub.viewer on the topic",
		}}, nil
	}
	return []exporter.Finding{{Level: exporter.LevelFail, Text: fmt.Sprintf("topic %s: %v", s.topic, &failure{err: err}), Hint: whatToDo(status.Code(err))}}, nil
}

func (s *Sink) checkPermission(ctx context.Context) exporter.Finding {
	const publish = "pubsub.topics.publish"
	answer, err := s.client.TopicAdminClient.TestIamPermissions(ctx, &iampb.TestIamPermissionsRequest{
		Resource: s.topic, Permissions: []string{publish},
	}, once)
	switch {
	case status.Code(err) == codes.Unimplemented:
		return exporter.Finding{Level: exporter.LevelOK, Text: "the server knows no permissions, as an emulator does"}
	case err != nil:
		return exporter.Finding{Level: exporter.LevelWarn, Text: fmt.Sprintf("ask for permissions on the topic: %v", &failure{err: err}), Hint: whatToDo(status.Code(err))}
	case len(answer.GetPermissions()) == 0:
		return exporter.Finding{Level: exporter.LevelFail, Text: "the exporter's identity may not publish to " + s.topic, Hint: whatToDo(codes.PermissionDenied)}
	}
	return exporter.Finding{Level: exporter.LevelOK, Text: "the exporter's identity may publish"}
}

// checkRegion looks at what order depends on: all messages of a key published
// in one region, https://cloud.google.com/pubsub/docs/ordering.
func (s *Sink) checkRegion(topic *pubsubpb.Topic) exporter.Finding {
	regions := topic.GetMessageStoragePolicy().GetAllowedPersistenceRegions()
	switch {
	case os.Getenv("PUBSUB_EMULATOR_HOST") != "":
		return exporter.Finding{Level: exporter.LevelOK, Text: "an emulator is one region"}
	case len(regions) == 1:
		return exporter.Finding{Level: exporter.LevelOK, Text: "messages are stored in " + regions[0] + " only, so that a run's order holds"}
	case s.cfg.Endpoint != "" && !strings.HasPrefix(s.cfg.Endpoint, "pubsub."):
		return exporter.Finding{Level: exporter.LevelOK, Text: "messages are published through " + s.cfg.Endpoint}
	}
	return exporter.Finding{
		Level: exporter.LevelWarn, Text: "the region of a message is not fixed; a run's order holds among the messages published in one region",
		Hint: "set …_PUBSUB_ENDPOINT to a regional endpoint such as europe-west1-pubsub.googleapis.com:443 on all replicas",
	}
}

func checkSchema(topic *pubsubpb.Topic) []exporter.Finding {
	schema := topic.GetSchemaSettings().GetSchema()
	if schema == "" {
		return nil
	}
	return []exporter.Finding{{
		Level: exporter.LevelWarn, Text: "the topic has the schema " + schema + ": events that do not fit it are refused",
		Hint: "publish to a topic without a schema, or see that it fits docs/sinks/pubsub.md",
	}}
}

// checkSubscriptions warns of a topic whose messages nobody gets, and of
// subscriptions that get a run's messages in any order.
func (s *Sink) checkSubscriptions(ctx context.Context, topic *pubsubpb.Topic) []exporter.Finding {
	var findings []exporter.Finding
	names := s.client.TopicAdminClient.ListTopicSubscriptions(ctx, &pubsubpb.ListTopicSubscriptionsRequest{Topic: s.topic}, once)
	for n := range checkedSubscriptions {
		name, err := names.Next()
		if n == 0 && errors.Is(err, iterator.Done) && topic.GetMessageRetentionDuration() == nil {
			return []exporter.Finding{{
				Level: exporter.LevelWarn, Text: "the topic has no subscription: Pub/Sub drops its messages",
				Hint: "create a subscription with message ordering, or set a retention on the topic, before events are exported",
			}}
		}
		if err != nil {
			return findings
		}
		subscription, err := s.client.SubscriptionAdminClient.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: name}, once)
		if err == nil && !subscription.GetEnableMessageOrdering() {
			findings = append(findings, exporter.Finding{
				Level: exporter.LevelWarn, Text: name + " does not keep the order of a run",
				Hint: "if its readers need the order, create it anew with message ordering; that cannot be changed later",
			})
		}
	}
	return findings
}
