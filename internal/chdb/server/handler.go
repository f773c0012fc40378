package main

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
)

// handler is ClickHouse's HTTP interface: the statement comes in the parameter
// "query", in the body, or first the one and then the other.
type handler struct {
	engine *engine
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/ping" {
		_, _ = io.WriteString(w, "Ok.\n") // the client has gone: its matter
		return
	}
	parameters := r.URL.Query()
	body, err := readBody(r, parameters)
	if err != nil { // an insert that was cut is not executed
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	format := parameters.Get("default_format")
	if format == "" {
		format = "TabSeparated"
	}
	answer, err := h.engine.run(parameters.Get("database"), statement(parameters, body), format)
	if err != nil {
		refuse(w, err)
		return
	}
	if format == "Native" {
		if answer, err = translate(answer, parameters); err != nil {
			refuse(w, err)
			return
		}
	}
	_, _ = w.Write(answer) // the client has gone: its matter
}

func readBody(r *http.Request, parameters url.Values) ([]byte, error) {
	if parameters.Get("decompress") != "1" || parameters.Get("query") == "" {
		return io.ReadAll(r.Body)
	}
	return io.ReadAll(compress.NewReader(r.Body))
}

var failureCode = regexp.MustCompile(`Code: (\d+)\.`)

func refuse(w http.ResponseWriter, err error) {
	text := err.Error()
	if code := failureCode.FindStringSubmatch(text); code != nil {
		w.Header().Set("X-ClickHouse-Exception-Code", code[1])
		text = text[strings.Index(text, code[0]):]
	}
	http.Error(w, text, http.StatusInternalServerError)
}

// ours are the parameters of the interface; all others are settings.
var ours = []string{
	"query", "database", "default_format", "client_protocol_version", "query_id", "quota_key",
	"compress", "decompress", "network_compression_method", "user", "password", "session_id", "wait_end_of_query",
}

var (
	insert = regexp.MustCompile(`(?is)^\s*INSERT\s`)
	format = regexp.MustCompile(`(?is)\s+FORMAT\s+\w+\s*$`)
	query  = regexp.MustCompile(`(?is)^\s*(SELECT|WITH)\s`)
)

// statement is what the library executes: settings, which a server takes from
// the address, are written into it.
func statement(parameters url.Values, body []byte) []byte {
	text := parameters.Get("query")
	if text == "" {
		text, body = string(body), nil
	}
	text = strings.TrimRight(text, "; \n")
	settings := settings(parameters)
	switch {
	case insert.MatchString(text) && len(body) > 0:
		ending := " FORMAT Native"
		if found := format.FindString(text); found != "" {
			text, ending = strings.TrimSuffix(text, found), found
		}
		return slices.Concat([]byte(text+settings+ending+"\n"), body)
	case insert.MatchString(text), query.MatchString(text):
		if !strings.Contains(strings.ToUpper(text), " SETTINGS ") {
			text += settings
		}
	}
	var joined bytes.Buffer
	joined.WriteString(text)
	joined.Write(body)
	return joined.Bytes()
}

func settings(parameters url.Values) string {
	var list []string
	for name := range parameters {
		if slices.Contains(ours, name) || strings.HasPrefix(name, "param_") {
			continue
		}
		value := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(parameters.Get(name))
		list = append(list, name+" = '"+value+"'")
	}
	if len(list) == 0 {
		return ""
	}
	slices.Sort(list)
	return " SETTINGS " + strings.Join(list, ", ")
}
