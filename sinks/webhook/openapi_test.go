package webhook

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v2"

	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// schema is what the description uses of JSON Schema.
type schema struct {
	Ref         string `yaml:"$ref"`
	Type        any
	Const       string
	Format      string
	Pattern     string
	Description string
	Minimum     int64
	Examples    []string
	Required    []string
	Properties  map[string]schema
}

type response struct {
	Description string
	Exporter    string `yaml:"x-exporter"`
	Headers     map[string]struct {
		Ref string `yaml:"$ref"`
	}
}

// description is the document, with every key that it may have.
type description struct {
	OpenAPI  string
	Info     struct{ Title, Version, Summary, Description string }
	Webhooks struct {
		Event struct {
			Post struct {
				OperationID string `yaml:"operationId"`
				Summary     string
				Parameters  []struct {
					Name, In, Description string
					Required              bool
					Schema                schema
				}
				RequestBody struct {
					Required bool
					Content  map[string]struct{ Schema schema }
				} `yaml:"requestBody"`
				Security  []map[string][]string
				Responses map[string]response
			}
		}
	}
	Components struct {
		Headers map[string]struct {
			Description string
			Schema      schema
		}
		SecuritySchemes map[string]struct{ Type, In, Name, Description string } `yaml:"securitySchemes"`
		Schemas         map[string]schema
	}
}

func describe(t *testing.T) *description {
	t.Helper()
	text, err := os.ReadFile("../../docs/openapi/webhook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var d description
	if err := yaml.UnmarshalStrict(text, &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

func (d *description) resolve(t *testing.T, s schema) schema {
	t.Helper()
	if s.Ref == "" {
		return s
	}
	name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/")
	found, known := d.Components.Schemas[name]
	if !ok || !known {
		t.Fatalf("nothing is at %s", s.Ref)
	}
	return found
}

// fits checks a JSON value, or a header's text, against a schema.
func (d *description) fits(t *testing.T, where string, s schema, value any) {
	t.Helper()
	s = d.resolve(t, s)
	text, isText := value.(string)
	if s.Pattern != "" && (!isText || !regexp.MustCompile(s.Pattern).MatchString(text)) {
		t.Errorf("%s: %v does not match %s", where, value, s.Pattern)
	}
	if s.Const != "" && text != s.Const {
		t.Errorf("%s: %v is not %s", where, value, s.Const)
	}
	if s.Type != nil && !strings.Contains(fmt.Sprint(s.Type), kindOf(value)) {
		t.Errorf("%s: %v is no %v", where, value, s.Type)
	}
	object, isObject := value.(map[string]any)
	if s.Properties == nil || !isObject {
		return
	}
	names := slices.Sorted(maps.Keys(object))
	if diff := cmp.Diff(slices.Sorted(maps.Keys(s.Properties)), names); diff != "" {
		t.Errorf("%s: described (-) and sent (+) fields differ:\n%s", where, diff)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(s.Required)), names); diff != "" {
		t.Errorf("%s: required (-) and sent (+) fields differ:\n%s", where, diff)
	}
	for name, property := range s.Properties {
		d.fits(t, where+"."+name, property, object[name])
	}
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case json.Number:
		return "integer"
	case map[string]any:
		return "object"
	}
	return fmt.Sprintf("%T", value)
}

// The description names what is really sent: headers, their form, and fields.
func TestDescriptionIsWhatIsSent(t *testing.T) {
	d := describe(t)
	if !strings.HasPrefix(d.OpenAPI, "3.1.") || !strings.Contains(d.Info.Description, "You may receive an event more than once; deduplicate on the key.") {
		t.Errorf("openapi %s, description %q", d.OpenAPI, d.Info.Description)
	}
	post := d.Webhooks.Event.Post
	described := map[string]bool{}
	for _, p := range post.Parameters {
		if p.In != "header" || !p.Required || p.Description == "" {
			t.Errorf("parameter %+v", p)
		}
		described[http.CanonicalHeaderKey(p.Name)] = true
	}
	server := newServer(t)
	for format, contentType := range map[Format]string{FormatJSON: "application/json", FormatCloudEvents: "application/cloudevents+json"} {
		server.forget()
		cfg := server.config()
		cfg.Format = format
		b := sinktest.Batch(2, 3, 4)
		b.Events[0].RunID = strings.Repeat("é\n", 2000)
		b.Events[1].TenantID.Present = false
		deliver(t, open(t, cfg), b)
		for _, r := range server.accepted() {
			sent := map[string]bool{}
			for name := range r.header {
				sent[name] = true
			}
			for _, name := range []string{"Content-Length", "Content-Type", "User-Agent"} {
				delete(sent, name)
			}
			if diff := cmp.Diff(described, sent); diff != "" {
				t.Fatalf("described (-) and sent (+) headers differ:\n%s", diff)
			}
			for _, p := range post.Parameters {
				d.fits(t, p.Name, p.Schema, r.header.Get(p.Name))
			}
			if got := r.header.Get("Content-Type"); got != contentType {
				t.Errorf("content type %q", got)
			}
			dec := json.NewDecoder(strings.NewReader(string(r.body)))
			dec.UseNumber()
			var body any
			if err := dec.Decode(&body); err != nil {
				t.Fatal(err)
			}
			d.fits(t, string(format), post.RequestBody.Content[contentType].Schema, body)
		}
	}
}

// Every status means what the description says; the sink obeys the same table,
// as TestStatuses shows.
func TestDescriptionOfStatuses(t *testing.T) {
	d := describe(t)
	words := map[kind]string{unavailable: "unavailable", rejected: "rejected", person: "pause"}
	used := map[string]bool{}
	for code := 200; code < 600; code++ {
		key := fmt.Sprint(code)
		r, ok := d.Webhooks.Event.Post.Responses[key]
		if !ok {
			key = fmt.Sprintf("%dXX", code/100)
			r, ok = d.Webhooks.Event.Post.Responses[key]
		}
		used[key] = true
		want := words[meaning(code)]
		if code < 300 {
			want = "accepted"
		}
		if !ok || r.Description == "" || r.Exporter != want {
			t.Errorf("%d is described as %q under %s, and is %s", code, r.Exporter, key, want)
		}
	}
	if len(used) != len(d.Webhooks.Event.Post.Responses) {
		t.Errorf("some responses describe no status; used: %v", used)
	}
	for _, r := range d.Webhooks.Event.Post.Responses {
		for name, h := range r.Headers {
			if _, ok := d.Components.Headers[strings.TrimPrefix(h.Ref, "#/components/headers/")]; !ok {
				t.Errorf("header %s: nothing is at %s", name, h.Ref)
			}
		}
	}
}
