package pubsub

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/docket-exporter/exporter"
)

// Limits of the service, https://cloud.google.com/pubsub/quotas. Those of a
// request are the library's constants: 10,000,000 bytes and 1,000 messages.
const (
	maxKeyBytes       = 1024
	maxAttributeBytes = 1024
)

// ClassTooLarge is the dead-letter class of an event that is over the limit.
const ClassTooLarge = "too_large"

const timeFormat = "2006-01-02T15:04:05.000000Z"

// message is the event with its data, which is its JSON.
func message(e *exporter.Event, data []byte) *pubsubpb.PubsubMessage {
	attributes := make(map[string]string, 7)
	attribute(attributes, "run_id", e.RunID)
	attribute(attributes, "seq", strconv.FormatInt(e.Seq, 10))
	attribute(attributes, "type", e.Type)
	attribute(attributes, "tenant_id", e.TenantID.Value)
	attribute(attributes, "graph_id", e.GraphID.Value)
	attribute(attributes, "occurred_at", e.OccurredAt.UTC().Format(timeFormat))
	attribute(attributes, "idempotency_key", e.Identity().Key())
	return &pubsubpb.PubsubMessage{Data: data, Attributes: attributes, OrderingKey: orderingKey(e.RunID)}
}

// attribute sets an attribute to exactly the text, or not at all: a filter
// never meets a text that is cut or hashed. The data always has the original.
func attribute(attributes map[string]string, name, value string) {
	if value != "" && len(value) <= maxAttributeBytes && utf8.ValidString(value) {
		attributes[name] = value
	}
}

// orderingKey is the run id, or what stands for one that cannot be a key. An
// empty key would mean no order.
func orderingKey(run string) string {
	if run != "" && len(run) <= maxKeyBytes && utf8.ValidString(run) {
		return run
	}
	sum := sha256.Sum256([]byte(run))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// atMost is at least the bytes that the event takes in an encoded request: cheap
// to know, exact in what is large. Escaping makes six bytes of one in the JSON;
// a text can be there a second time as attribute and a third as ordering key.
func atMost(e *exporter.Event) int {
	const fixed = 1024 // names, numbers, times, keys and the lengths of all
	texts := len(e.RunID) + len(e.Type) + len(e.NodeID.Value) + len(e.ChannelID.Value) + len(e.TaskID.Value) +
		len(e.TenantID.Value) + len(e.GraphID.Value) + len(e.GraphHash.Value)
	return len(e.Payload) + len(e.Metadata) + 8*texts + fixed
}

// encodedBytes is what the event takes in an encoded request.
func encodedBytes(e *exporter.Event) int {
	n := proto.Size(message(e, e.AppendJSON(make([]byte, 0, atMost(e)))))
	return protowire.SizeTag(2) + protowire.SizeBytes(n) // PublishRequest.messages
}

// room is what is left for messages in an encoded request to a topic.
func room(topic string) int {
	return pubsub.MaxPublishRequestBytes - proto.Size(&pubsubpb.PublishRequest{Topic: topic})
}

// tooLarge lists the events that do not fit into a request of their own.
func tooLarge(events []exporter.Event, room int) []exporter.Rejection {
	var rejections []exporter.Rejection
	for i := range events {
		e := &events[i]
		if atMost(e) <= room {
			continue
		}
		if n := encodedBytes(e); n > room {
			rejections = append(rejections, exporter.Rejection{
				Event: *e, Class: ClassTooLarge,
				Reason: fmt.Sprintf("the message takes %d bytes encoded, a request to Pub/Sub has room for %d", n, room),
			})
		}
	}
	return rejections
}

// cut returns how many of a run's next events go into one request, at least
// one, and how many bytes they can take at most.
func cut(events []exporter.Event, room int) (count, bytes int) {
	for count < len(events) && count < pubsub.MaxPublishRequestCount {
		n := atMost(&events[count])
		if count > 0 && bytes+n > room {
			break
		}
		count, bytes = count+1, bytes+n
	}
	return count, min(bytes, room)
}

// request is a publish request for events of one run: all messages of a request
// must have the same ordering key. Their data stands in memory, which grows as
// it must.
func request(topic string, events []exporter.Event, memory *[]byte) *pubsubpb.PublishRequest {
	size := 0
	for i := range events {
		size += len(events[i].Payload) + len(events[i].Metadata) + besides
	}
	data := slices.Grow((*memory)[:0], size)
	messages := make([]*pubsubpb.PubsubMessage, len(events))
	for i := range events {
		start := len(data)
		data = events[i].AppendJSON(data) // data that moves leaves the messages before where they are
		messages[i] = message(&events[i], data[start:len(data):len(data)])
	}
	*memory = data
	return &pubsubpb.PublishRequest{Topic: topic, Messages: messages}
}

// besides is about what an event's JSON has beside payload and metadata.
const besides = 768
