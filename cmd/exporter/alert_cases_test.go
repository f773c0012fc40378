package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v2"
)

const (
	forLong  = "x@" // a sample every 30 s to the end of the case
	noSample = "_" + forLong
)

// healthyFleet is what a fleet shows whose only consumer is idle: name of a series,
// with labels of its own, and its values in promtool's notation. Series of the
// databases come from each of two replicas, the others from the owner.
var healthyFleet = struct{ databases, owner map[string]string }{
	databases: map[string]string{
		`lag_events{consumer="feed"}`:                  "0+0" + forLong,
		`lag_exact{consumer="feed"}`:                   "1+0" + forLong,
		`lag_seconds{consumer="feed"}`:                 "0+0" + forLong,
		`headroom_seconds{consumer="feed"}`:            "1209600+0" + forLong,
		`headroom_ratio{consumer="feed"}`:              "1+0" + forLong,
		`position_high_id{consumer="feed"}`:            "120345+0" + forLong,
		`open_holes{consumer="feed"}`:                  "0+0" + forLong,
		`oldest_hole_seconds{consumer="feed"}`:         "0+0" + forLong,
		`consumer_owned{consumer="feed"}`:              "1+0" + forLong,
		`consumer_epoch{consumer="feed"}`:              "3+0" + forLong,
		`unowned_seconds{consumer="feed"}`:             "0+0" + forLong,
		`consumer_paused{consumer="feed"}`:             "0+0" + forLong,
		`since_progress_seconds{consumer="feed"}`:      "0.1+0" + forLong,
		`since_poll_seconds{consumer="feed"}`:          "0.1+0" + forLong,
		`dead_letters_open{consumer="feed"}`:           "0+0" + forLong,
		`dead_letters_held{consumer="feed"}`:           "0+0" + forLong,
		`losses_open{consumer="feed"}`:                 "0+0" + forLong,
		`lost_events_open{consumer="feed"}`:            "0+0" + forLong,
		`arrival_events_per_second{consumer="feed"}`:   "0+0" + forLong,
		`drain_events_per_second{consumer="feed"}`:     "0+0" + forLong,
		`catch_up_seconds{consumer="feed"}`:            "0+0" + forLong,
		`loss_eta_seconds{consumer="feed"}`:            "Inf+0" + forLong,
		`lag_collected_timestamp_seconds`:              "0+30" + forLong,
		`retention_seconds`:                            "1209600+0" + forLong,
		`retention_observed_seconds`:                   "1209700+0" + forLong,
		`retention_mismatch`:                           "0+0" + forLong,
		`retention_guard_held`:                         "0+0" + forLong,
		`retention_guard_held_seconds_total`:           "0+0" + forLong,
		`retention_guard_refused`:                      "0+0" + forLong,
		`build_info{version="1",goversion="go1.26.0"}`: "1+0" + forLong,
	},
	owner: map[string]string{
		`events_accepted_total{consumer="feed"}`:                  "900+0" + forLong,
		`late_rows_total{consumer="feed"}`:                        "0+0" + forLong,
		`panics_total{consumer="feed"}`:                           "0+0" + forLong,
		`sink_tls_unverified{consumer="feed"}`:                    "0+0" + forLong,
		`last_successful_poll_timestamp_seconds{consumer="feed"}`: "0+30" + forLong,
	},
}

// alertCase is a healthy fleet but for some series, and what fires then.
type alertCase struct {
	name    string
	changes map[string]string // values of series, as in healthyFleet
	firing  map[string]string // by time: alerts in the form "Name(feed)" or "Name(feed, reason)"
}

// wholeFleet is a change of every series, and otherReplica begins one of the
// second replica alone.
const (
	wholeFleet   = "*"
	otherReplica = "b:9464 "
)

const (
	unreadableSeries = `retries_total{consumer="feed",reason="read"}`
	operatorSeries   = `consumer_paused_reason{consumer="feed",reason="operator"}`
	sinkSeries       = `consumer_paused_reason{consumer="feed",reason="sink"}`
	pausedSeries     = `consumer_paused{consumer="feed"}`
	ownedSeries      = `consumer_owned{consumer="feed"}`
	unownedSeries    = `unowned_seconds{consumer="feed"}`
	eventsSeries     = `lag_events{consumer="feed"}`
	ratioSeries      = `headroom_ratio{consumer="feed"}`
	etaSeries        = `loss_eta_seconds{consumer="feed"}`
	progressSeries   = `since_progress_seconds{consumer="feed"}`
	polledSeries     = `last_successful_poll_timestamp_seconds{consumer="feed"}`
	collectedSeries  = `lag_collected_timestamp_seconds`
)

var alertCases = []alertCase{
	{"idle for a day", nil, map[string]string{"10m": "", "5h": "", "24h": ""}},
	{"a busy consumer, a little behind", map[string]string{
		eventsSeries: "0 400 20 9000 0" + strings.Repeat(" 300 5000", 60), progressSeries: "0.2+0" + forLong, ratioSeries: "0.99+0" + forLong, etaSeries: "Inf+0" + forLong,
	}, map[string]string{"10m": "", "30m": ""}},
	{"half of the retention is used", map[string]string{ratioSeries: "0.51+0x20 0.49+0" + forLong}, map[string]string{"10m": "", "11m": "", "13m": "HeadroomLow(feed)"}},
	{"four fifths are used", map[string]string{ratioSeries: "0.21+0x20 0.19+0" + forLong}, map[string]string{
		"10m": "HeadroomLow(feed)", "13m": "HeadroomCritical(feed) HeadroomLow(feed)",
	}},
	{"a short dip of the headroom", map[string]string{ratioSeries: "1+0x20 0.1 1+0" + forLong}, map[string]string{"10m30s": "", "11m": "", "13m": ""}},
	{"the rates lead to a loss", map[string]string{ratioSeries: "0.45+0" + forLong, etaSeries: "14000+0" + forLong}, map[string]string{"4m": "HeadroomLow(feed)", "7m": "HeadroomLow(feed) LossNear(feed)"}},
	{"another process was told a longer retention", map[string]string{
		ratioSeries: "0.1+0" + forLong, etaSeries: "1000+0" + forLong, otherReplica + ratioSeries: "0.95+0" + forLong, otherReplica + etaSeries: "Inf+0" + forLong,
	}, map[string]string{"3m": "HeadroomCritical(feed) HeadroomLow(feed)", "7m": "HeadroomCritical(feed) HeadroomLow(feed) LossNear(feed)"}},
	{"a retention below four hours, and no hurry", map[string]string{ratioSeries: "0.95+0" + forLong, etaSeries: "7000+0" + forLong}, map[string]string{"30m": ""}},
	{"behind and still", map[string]string{eventsSeries: "50+0" + forLong, progressSeries: "0+30" + forLong}, map[string]string{"10m": "", "13m": "NoProgress(feed)"}},
	{"nothing to do and no progress known", map[string]string{progressSeries: "0+30" + forLong}, map[string]string{"30m": ""}},
	{"the owner is gone", map[string]string{ownedSeries: "0+0" + forLong, unownedSeries: "0+30" + forLong, eventsSeries: "50+0" + forLong, progressSeries: "0+30" + forLong}, map[string]string{
		"1m": "", "3m": "ConsumerUnowned(feed)", "30m": "ConsumerUnowned(feed)",
	}},
	{"a take-over", map[string]string{ownedSeries: "1+0x20 0 1+0" + forLong, unownedSeries: "0+0x20 30 0+0" + forLong}, map[string]string{"10m30s": "", "12m": ""}},
	{"paused by a person, the headroom counts on", map[string]string{
		operatorSeries: "1+0" + forLong, pausedSeries: "1+0" + forLong, ownedSeries: "0+0" + forLong, unownedSeries: "0+30" + forLong, eventsSeries: "50+0" + forLong,
		progressSeries: "0+30" + forLong, ratioSeries: "1-0.01" + forLong,
	}, map[string]string{
		"20m": "", "28m": "HeadroomLow(feed)", "32m": "ConsumerPausedByOperator(feed, operator) HeadroomLow(feed)",
		"43m": "ConsumerPausedByOperator(feed, operator) HeadroomCritical(feed) HeadroomLow(feed)",
	}},
	{"paused and resumed", map[string]string{operatorSeries: "1+0x40 stale", pausedSeries: "1+0x40 0+0" + forLong}, map[string]string{"20m": "", "32m": ""}},
	{"paused by the exporter", map[string]string{sinkSeries: "1+0" + forLong, pausedSeries: "1+0" + forLong}, map[string]string{"30s": "", "2m": "ConsumerPaused(feed, sink)"}},
	{"dead letters", map[string]string{`dead_letters_open{consumer="feed"}`: "0+0x20 2+0x20 0+0" + forLong}, map[string]string{
		"10m": "", "12m": "DeadLetters(feed)", "22m": "",
	}},
	{"late rows", map[string]string{`late_rows_total{consumer="feed"}`: "0+0x20 1+0" + forLong}, map[string]string{"10m": "", "11m": "LateRows(feed)", "75m": ""}},
	{"a panic", map[string]string{`panics_total{consumer="feed"}`: "0+0x20 1+0" + forLong}, map[string]string{"10m": "", "11m": "Panics(feed)", "75m": ""}},
	{"an old hole", map[string]string{`open_holes{consumer="feed"}`: "1+0" + forLong, `oldest_hole_seconds{consumer="feed"}`: "0+30" + forLong}, map[string]string{"10m": "", "12m": "HoleOld(feed)"}},
	{"many holes", map[string]string{`open_holes{consumer="feed"}`: "1001+0" + forLong}, map[string]string{"4m": "", "6m": "ManyHoles(feed)"}},
	{"a sink that is not verified", map[string]string{`sink_tls_unverified{consumer="feed"}`: "1+0" + forLong}, map[string]string{"30s": "", "2m": "SinkUnverified(feed)"}},
	{"a loss", map[string]string{`losses_open{consumer="feed"}`: "0+0x20 1+0x20 0+0" + forLong}, map[string]string{"10m": "", "10m30s": "EventsLost(feed)", "21m": ""}},
	{"another retention", map[string]string{`retention_mismatch`: "1+0" + forLong}, map[string]string{"14m": "", "16m": "RetentionMismatch()"}},
	{"the guard is held", map[string]string{`retention_guard_held`: "1+0" + forLong}, map[string]string{"29m": "", "31m": "GuardHeld()"}},
	{"the guard is refused", map[string]string{`retention_guard_refused`: "1+0" + forLong}, map[string]string{"30s": "", "2m": "GuardRefused()"}},
	{"Docket's database is down", map[string]string{
		polledSeries: "0+0" + forLong, unreadableSeries: "0+1" + forLong, eventsSeries: noSample, `lag_seconds{consumer="feed"}`: noSample, ratioSeries: noSample, `headroom_seconds{consumer="feed"}`: noSample,
	}, map[string]string{"2m": "", "4m": "SourceUnreadable(feed)", "11m": "LagUnknown(feed) SourceUnreadable(feed)"}},
	{"a sink that is down, so nothing is read", map[string]string{polledSeries: "0+0" + forLong, `since_poll_seconds{consumer="feed"}`: "0+30" + forLong}, map[string]string{"10m": ""}},
	{"all are killed", map[string]string{wholeFleet: "x20 stale"}, map[string]string{"10m": "", "13m": "Absent()", "20m": "Absent()"}},
	{"the exporter's tables are away", map[string]string{collectedSeries: "0+30x20 600+0" + forLong}, map[string]string{"10m": "", "13m": "StateUnknown()"}},
	{"the exporter's tables were never there", map[string]string{collectedSeries: noSample}, map[string]string{"2m": "StateUnknown()"}},
}

// A fleet that is healthy but for one thing raises the alert of that thing and
// no other, once, whatever the number of replicas.
func TestAlertsFireInTheirCaseOnly(t *testing.T) {
	t.Parallel()
	fired := map[string]bool{}
	var short, long []yaml.MapSlice
	for _, c := range alertCases {
		if c.lasts() > 2*time.Hour {
			long = append(long, c.test())
		} else {
			short = append(short, c.test())
		}
		for _, firing := range c.firing {
			for alert := range set(`(\w+)\(`, firing) {
				fired["DocketExporter"+alert] = true
			}
		}
	}
	for _, r := range alertRules(t) {
		if !fired[r.Alert] {
			t.Errorf("no case fires %s", r.Alert)
		}
	}
	promtool(t, "test", "rules", promtoolFile(t, "30s", short), promtoolFile(t, "5m", long))
}

// promtoolFile writes tests in which the rules are evaluated so often.
func promtoolFile(t *testing.T, every string, tests []yaml.MapSlice) string {
	t.Helper()
	text, err := yaml.Marshal(yaml.MapSlice{
		{Key: "rule_files", Value: []string{ruleFile(t)}}, {Key: "evaluation_interval", Value: every}, {Key: "tests", Value: tests},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rules.test.yml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// test is the case as promtool reads it.
func (c alertCase) test() yaml.MapSlice {
	var series []map[string]string
	end := c.end()
	add := func(name, values, instance string) {
		for _, key := range []string{name, instance + " " + name} {
			if v, ok := c.changes[key]; ok {
				values = v
			}
		}
		if killed, ok := c.changes[wholeFleet]; ok {
			values = strings.TrimSuffix(values, forLong) + killed
		}
		series = append(series, map[string]string{"series": onInstance(name, instance), "values": strings.ReplaceAll(values, forLong, end)})
	}
	for name, values := range healthyFleet.databases {
		add(name, values, "a:9464")
		add(name, values, "b:9464")
	}
	for name, values := range healthyFleet.owner {
		add(name, values, "a:9464")
	}
	for name, values := range c.changes {
		if healthyFleet.databases[name] == "" && healthyFleet.owner[name] == "" && name != wholeFleet && !strings.HasPrefix(name, otherReplica) {
			add(name, values, "a:9464")
			add(name, values, "b:9464")
		}
	}
	var tests []yaml.MapSlice
	for _, at := range slices.Sorted(maps.Keys(c.firing)) {
		var samples []yaml.MapSlice
		for one := range set(`(\w+\([^)]*\))`, c.firing[at]) {
			samples = append(samples, yaml.MapSlice{{Key: "labels", Value: alertLabels(one)}, {Key: "value", Value: 1}})
		}
		tests = append(tests, yaml.MapSlice{
			{Key: "expr", Value: `count by (alertname, consumer, reason) (ALERTS{alertstate="firing"})`},
			{Key: "eval_time", Value: at},
			{Key: "exp_samples", Value: samples},
		})
	}
	return yaml.MapSlice{
		{Key: "name", Value: c.name},
		{Key: "interval", Value: "30s"},
		{Key: "input_series", Value: series},
		{Key: "promql_expr_test", Value: tests},
	}
}

// end is how far the series go: a little beyond the last look at them.
func (c alertCase) end() string { return fmt.Sprintf("x%d", c.lasts()/(30*time.Second)+10) }

// lasts is when the case is looked at last.
func (c alertCase) lasts() time.Duration {
	var last time.Duration
	for at := range c.firing {
		d, err := time.ParseDuration(at)
		if err != nil {
			panic(err) // of the table above
		}
		last = max(last, d)
	}
	return last
}

// onInstance is a series as a replica shows it.
func onInstance(series, instance string) string {
	name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	if labels != "" {
		labels += ","
	}
	return fmt.Sprintf(`docket_exporter_%s{%sinstance=%q}`, name, labels, instance)
}

// alertLabels are the labels of "Name(feed, reason)".
func alertLabels(firing string) string {
	name, rest, _ := strings.Cut(strings.TrimSuffix(firing, ")"), "(")
	labels := fmt.Sprintf(`{alertname="DocketExporter%s"`, name)
	consumer, reason, hasReason := strings.Cut(rest, ", ")
	if consumer != "" {
		labels += fmt.Sprintf(`,consumer=%q`, consumer)
	}
	if hasReason {
		labels += fmt.Sprintf(`,reason=%q`, reason)
	}
	return labels + "}"
}
