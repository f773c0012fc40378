package main

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
)

// handler is ClickHouse's HTTP interface: the statement comes in the parameter
// "query", in the body, or first the one and then the other.
type handler struct {
	engine   *engine
	spoolDir string // must be outside of the library's data
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
	text, done, err := h.statement(parameters, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer done()
	answer, err := h.engine.run(parameters.Get("database"), text, format)
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
	body, err := io.ReadAll(compress.NewReader(r.Body))
	if errors.Is(err, io.EOF) { // between two blocks; within one it is another error
		err = nil
	}
	return body, err
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

// statement is what the library executes. Settings, which a server takes from
// the address, are written into it; the data of an insert goes into a file,
// since the library ends data that stands in the statement at its first newline.
func (h *handler) statement(parameters url.Values, body []byte) (text string, done func(), err error) {
	text, done = parameters.Get("query"), func() {}
	if text == "" {
		text, body = string(body), nil
	}
	text = strings.TrimRight(text, "; \n")
	settings := settings(parameters)
	switch {
	case insert.MatchString(text) && len(body) > 0:
		path, err := h.spool(body)
		if err != nil {
			return "", done, err
		}
		ending := " FORMAT Native"
		if found := format.FindString(text); found != "" {
			text, ending = strings.TrimSuffix(text, found), found
		}
		return text + " FROM INFILE '" + path + "'" + settings + ending, func() { _ = os.Remove(path) }, nil
	case insert.MatchString(text), query.MatchString(text):
		if !strings.Contains(strings.ToUpper(text), " SETTINGS ") {
			text += settings
		}
	}
	return text + string(body), done, nil
}

// spool writes the data of an insert where the library can read it.
func (h *handler) spool(data []byte) (path string, err error) {
	f, err := os.CreateTemp(h.spoolDir, "insert-*.native")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	return f.Name(), errors.Join(err, f.Close())
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
