package clickhouse

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	driver "github.com/ClickHouse/clickhouse-go/v2"
)

// TestEmptyBodyIsNoInsert sends bodies as the driver does, through a pipe.
func TestEmptyBodyIsNoInsert(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer server.Close()
	o := &driver.Options{Protocol: driver.HTTP}
	guard(o)
	transport, err := o.TransportFunc(&http.Transport{DisableKeepAlives: true})
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: transport}
	for text, want := range map[string]error{"rows": nil, "": errEmptyBody} {
		body, writer := io.Pipe()
		go func() {
			_, _ = io.Copy(writer, strings.NewReader(text))
			_ = writer.Close()
		}()
		response, err := client.Post(server.URL, "application/octet-stream", body)
		if !errors.Is(err, want) {
			t.Errorf("body %q: got %v, want %v", text, err, want)
		}
		if err == nil {
			_ = response.Body.Close() // its status is enough
		}
	}
}
