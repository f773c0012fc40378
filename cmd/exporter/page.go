package main

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the files of the page
	"encoding/base64"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
)

var (
	//go:embed web/page.html
	pageHTML string
	//go:embed web/page.css
	pageCSS string
	//go:embed web/page.js
	pageJS string
)

// page serves what a process can tell: to people as one document without
// anything beside it, which works without its script, and as JSON. It changes
// nothing.
type page struct {
	tell     func(*http.Request) statusReport
	template *template.Template
	policy   string
	log      *slog.Logger
}

// newPage returns a page of reports. Its content security policy lets a
// browser run and load nothing but what is in the document.
func newPage(tell func(*http.Request) statusReport, log *slog.Logger) *page {
	return &page{
		tell: tell, log: log,
		template: template.Must(template.New("page").Parse(pageHTML)),
		policy: fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
			hashOf(pageCSS), hashOf(pageJS)),
	}
}

// hashOf is how a policy names a text in the document.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// html serves the document.
func (p *page) html(w http.ResponseWriter, r *http.Request) {
	report := p.tell(r)
	view := viewOf(&report)
	view.CSS, view.JS = template.CSS(pageCSS), template.JS(pageJS) //nolint:gosec // our own files
	var b bytes.Buffer
	if err := p.template.Execute(&b, view); err != nil {
		p.log.Error("the status page cannot be shown", "err", err)
		http.Error(w, "the status page cannot be shown; see the log", http.StatusInternalServerError)
		return
	}
	p.headers(w, "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // the reader may be gone
}

// json serves the report.
func (p *page) json(w http.ResponseWriter, r *http.Request) {
	report := p.tell(r)
	var b bytes.Buffer
	if err := writeJSON(&b, &report); err != nil {
		p.log.Error("the status cannot be shown", "err", err)
		http.Error(w, "the status cannot be shown; see the log", http.StatusInternalServerError)
		return
	}
	p.headers(w, "application/json")
	_, _ = w.Write(b.Bytes())
}

func (p *page) headers(w http.ResponseWriter, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Security-Policy", p.policy)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}
