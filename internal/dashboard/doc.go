// Package dashboard makes the Grafana dashboard of the exporter,
// deploy/grafana/docket-exporter.json, from Go, so that a change of a panel is
// reviewed as one. A test writes the file (-update) and fails when it is stale;
// another one, in cmd/exporter, evaluates every query.
//
// The file is in the classic form, which every Grafana since version 9 imports.
package dashboard
