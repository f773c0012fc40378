package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// minimal is the smallest environment that run accepts.
func minimal() map[string]string {
	return map[string]string{
		"DOCKET_DATABASE_URL":         "postgres://reader:topsecret@db.example:6432/app",
		"RETENTION_EVENTS":            "14d",
		"EXPORTER_CONSUMERS":          "analytics",
		"CONSUMER_ANALYTICS_SINK":     "file",
		"CONSUMER_ANALYTICS_FILE_DIR": "/srv/events",
	}
}

func with(changes ...string) map[string]string {
	env := minimal()
	for _, c := range changes {
		name, value, _ := strings.Cut(c, "=")
		env[name] = value
	}
	return env
}

func TestMinimalConfigurationHasDefaults(t *testing.T) {
	c, err := loadConfig(minimal())
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Database.Export.Reveal(); got != minimal()["DOCKET_DATABASE_URL"] {
		t.Errorf("export database is %q, want the Docket database", got)
	}
	if c.Database.ExportDirect != c.Database.Docket || c.Database.DocketDirect != c.Database.Docket {
		t.Error("the direct URLs are not the Docket database")
	}
	consumer := c.Consumers[0]
	for _, x := range []struct {
		name      string
		got, want any
	}{
		{"Docket schema", c.Database.DocketSchema, "public"},
		{"export schema", c.Database.ExportSchema, "docket_export"},
		{"retention", c.Exporter.Retention.Value(), 14 * 24 * time.Hour},
		{"address", c.Exporter.HTTPAddr, "127.0.0.1:9464"},
		{"poll interval", c.Exporter.PollInterval.Value(), 100 * time.Millisecond},
		{"lease", c.Exporter.LeaseTTL.Value(), 15 * time.Second},
		{"grace", c.Exporter.ShutdownGrace.Value(), 20 * time.Second},
		{"statement timeout", c.Exporter.StatementTimeout.Value(), 30 * time.Second},
		{"replica", c.Exporter.Replica, replicaName()},
		{"log level", c.Log.Level.Level().String(), "INFO"},
		{"log format", c.Log.Format, LogFormat("")},
		{"consumer", consumer.Name, "analytics"},
		{"start", consumer.Start.String(), "earliest"},
		{"payload", consumer.Payload.Full, true},
		{"batch events", consumer.BatchEvents, Count(10000)},
		{"batch bytes", consumer.BatchBytes, Size(6 << 20)},
		{"linger", consumer.Linger.Value(), time.Duration(0)},
		{"segment bytes", consumer.File.SegmentBytes, Size(256 << 20)},
		{"segment age", consumer.File.SegmentAge.Value(), time.Hour},
	} {
		if x.got != x.want {
			t.Errorf("%s is %v, want %v", x.name, x.got, x.want)
		}
	}
}

func TestExportDirectFollowsTheDatabaseItBelongsTo(t *testing.T) {
	pooled, direct, other := "postgres://pooler/app", "postgres://db/app", "postgres://other/state"
	for _, x := range []struct{ export, docketDirect, want string }{
		{"", "", pooled},
		{"", direct, direct},
		{other, direct, other},
	} {
		c, err := loadConfig(with("DOCKET_DATABASE_URL="+pooled, "EXPORT_DATABASE_URL="+x.export, "DOCKET_DIRECT_URL="+x.docketDirect))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Database.ExportDirect.Reveal(); got != x.want {
			t.Errorf("export %q, direct %q: migrations use %q, want %q", x.export, x.docketDirect, got, x.want)
		}
	}
}

func TestAllProblemsAreReportedAtOnce(t *testing.T) {
	_, err := loadConfig(map[string]string{
		"EXPORTER_CONSUMERS":      "feed,ledger",
		"CONSUMER_FEED_SINK":      "clickhous",
		"CONSUMER_FEED_START":     "yesterday",
		"CONSUMER_LEDGER_SINK":    "file",
		"CONSUMER_LEDGER_BATCH":   "7",
		"EXPORTER_LEASE_TTL":      "10",
		"EXPORTER_POL_INTERVAL":   "1s",
		"LOG_LEVEL":               "loud",
		"EXPORTER_HTTP_ADDR":      "9464",
		"CONSUMER_LEDGER_PAYLOAD": "a,,b",
	})
	if exitCode(err) != exitUsage {
		t.Fatalf("exit code %d, want %d: %v", exitCode(err), exitUsage, err)
	}
	for _, want := range []string{
		"DOCKET_DATABASE_URL is not set", "RETENTION_EVENTS is not set",
		`CONSUMER_FEED_SINK "clickhous" is not a sink; write file`,
		`CONSUMER_FEED_START "yesterday" is no place in the events`,
		"CONSUMER_LEDGER_FILE_DIR is not set", "CONSUMER_LEDGER_BATCH is not known for the consumer ledger",
		`EXPORTER_LEASE_TTL "10" is not a duration`,
		"EXPORTER_POL_INTERVAL is not known; did you mean EXPORTER_POLL_INTERVAL?",
		"LOG_LEVEL", "EXPORTER_HTTP_ADDR", "CONSUMER_LEDGER_PAYLOAD",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if n := strings.Count(err.Error(), "\n"); n != 11 {
		t.Errorf("want a heading and 11 problems, one a line:\n%v", err)
	}
	if _, ok := errors.AsType[*problem](err); !ok {
		t.Error("the problems cannot be found with errors.As")
	}
}

func TestSingleProblems(t *testing.T) {
	for _, x := range []struct{ change, want string }{
		{"RETENTION_EVENTS=0s", "RETENTION_EVENTS"},
		{"RETENTION_EVENTS=-1h", "RETENTION_EVENTS"},
		{"RETENTION_EVENTS=fortnight", "or none when nothing prunes"},
		{"EXPORTER_CONSUMERS=Analytics", `"Analytics" is not a consumer name`},
		{"EXPORTER_CONSUMERS=analytics,analytics", "named twice"},
		{"EXPORTER_CONSUMERS=,", "names no consumer"},
		{"EXPORTER_LEASE_TTL=10ms", "at least 1s"},
		{"EXPORTER_POLL_INTERVAL=0s", "at least 1ms"},
		{"EXPORTER_WEB_CONFIG_FILE=/does/not/exist", "EXPORTER_WEB_CONFIG_FILE"},
		{"EXPORTER_HTTP_ADDR=localhost:nosuchport", "EXPORTER_HTTP_ADDR"},
		{"CONSUMER_ANALYTICS_BATCH_EVENTS=0", "whole number from 1"},
		{"CONSUMER_ANALYTICS_BATCH_BYTES=8 parsecs", "is not a size"},
		{"CONSUMER_ANALYTICS_TYPES=a*b", "not at the end"},
		{"CONSUMER_ANALYTICS_TYPES=a,,b", "empty pattern"},
		{"CONSUMER_ANALYTICS_START=12-{[20,30]}", "no place in the events"},
		{"CONSUMER_ANALYTICS_FILE_SEGMENT_AGE=0s", "at least 1s"},
		{"DOCKET_SCHEMA=" + strings.Repeat("x", 64), "64 bytes"},
		{"CONSUMER_ANALITICS_SINK=file", "analitics is not in EXPORTER_CONSUMERS; did you mean CONSUMER_ANALYTICS_SINK?"},
		{"CONSUMER_OTHER_THING=file", "CONSUMER_OTHER_THING belongs to no consumer"},
		{"EXPORTER_CONSUMERS_FILE=/x", "EXPORTER_CONSUMERS_FILE is not known"},
		{"DOCKET_SHEMA=jobs", "DOCKET_SHEMA is not known; did you mean DOCKET_SCHEMA?"},
		{"LOG_LEVL=debug", "did you mean LOG_LEVEL?"},
		{"DOCKET_DATABASE_URL=ecto://u:p@db/app", "the scheme must be postgres://"},
		{"DOCKET_SCHEMA=postgres://u:p@db/app", "DOCKET_SCHEMA looks like a connection string"},
		{"RETENTION_EVENTS=200000d", "is too long"},
		{"EXPORTER_POLL_INTERVAL=99999999h", "is too long"},
		{"CONSUMER_ANALYTICS_START=-5", "below every id"},
		{"CONSUMER_ANALYTICS_PAYLOAD=Full", "neither full nor none"},
		{"CONSUMER_ANALYTICS_PAYLOAD=NONE", "neither full nor none"},
		{"CONSUMER_ANALYTICS_PAYLOAD=full,reason", "neither full nor none"},
		{"CONSUMER_ANALYTICS_PAYLOAD=reason,none", "neither full nor none"},
		{"CONSUMER_ANALYTICS_PAYLOAD=*", "keys are whole names"},
		{`CONSUMER_ANALYTICS_PAYLOAD="reason"`, "holds quotes"},
		{"CONSUMER_ANALYTICS_TYPES=!*", "excludes everything"},
		{"CONSUMER_ANALYTICS_TENANTS=acme,!*", "excludes everything"},
		{`CONSUMER_ANALYTICS_TENANTS="acme"`, "holds quotes"},
		{"CONSUMER_ANALYTICS_GRAPHS=!'chain'", "holds quotes"},
		{"EXPORTER_CONSUMERS=analytics,analytics_file", "CONSUMER_ANALYTICS_FILE_DIR is ambiguous"},
		{"CONSUMER_OLD_FILE_DIR=/x", "old is not in EXPORTER_CONSUMERS"},
		{"CONSUMER_ANALYTICS_EU_SINK=file", "analytics_eu is not in EXPORTER_CONSUMERS"},
	} {
		_, err := loadConfig(with(x.change))
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", x.change, err, x.want)
		}
	}
}

// The report of the web toolkit has several lines; it is one problem.
func TestProblemsAreCountedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.yml")
	if err := os.WriteFile(path, []byte("tls_server_confg: {}\nbasic_auth_user: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := loadConfig(with("EXPORTER_WEB_CONFIG_FILE="+path, "LOG_LEVEL=loud"))
	if err == nil || !strings.Contains(err.Error(), "has 2 problems:") || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("want 2 problems on 2 lines: %v", err)
	}
}

func TestHTTPCanBeSwitchedOff(t *testing.T) {
	for _, x := range []struct {
		set, running, once string
	}{
		{"", "127.0.0.1:9464", ""},
		{"0.0.0.0:9000", "0.0.0.0:9000", "0.0.0.0:9000"},
		{"off", "", ""},
		{"none", "", ""},
	} {
		c, err := loadConfig(with("EXPORTER_HTTP_ADDR=" + x.set))
		if err != nil {
			t.Fatal(err)
		}
		if run, once := c.Exporter.listenAddr(false), c.Exporter.listenAddr(true); run != x.running || once != x.once {
			t.Errorf("%q: run listens on %q and run --once on %q", x.set, run, once)
		}
	}
}

func TestForeignVariablesAreLeftAlone(t *testing.T) {
	_, err := loadConfig(with(
		"EXPORTER_SERVICE_HOST=10.0.0.1", "EXPORTER_SERVICE_PORT=9464", "EXPORTER_SERVICE_PORT_METRICS=9464",
		"EXPORTER_PORT=tcp://10.0.0.1:9464", "EXPORTER_PORT_9464_TCP=tcp://10.0.0.1:9464",
		"EXPORTER_PORT_9464_TCP_PROTO=tcp", "EXPORTER_PORT_9464_TCP_PORT=9464", "EXPORTER_PORT_9464_TCP_ADDR=10.0.0.1",
		"CONSUMER_X_SERVICE_HOST=10.0.0.2", "CONSUMER_X_PORT=tcp://10.0.0.2:80", "CONSUMER_X_PORT_80_TCP=tcp://10.0.0.2:80",
		"DOCKET_POOL_SIZE=10", "LOG_COLOR=1", "EXPORT_THING=1", "PATH=/bin", "HOME=/root",
	))
	if err != nil {
		t.Error(err)
	}
	if _, err := loadConfig(with("EXPORTER_PORT=9464")); err == nil {
		t.Error("EXPORTER_PORT=9464 is no service link, but was not reported")
	}
}

func TestLongestConsumerNameOwnsAVariable(t *testing.T) {
	env := minimal()
	maps.Copy(env, map[string]string{
		"EXPORTER_CONSUMERS": "analytics,feed,feed_eu",
		"CONSUMER_FEED_SINK": "file", "CONSUMER_FEED_FILE_DIR": "/a",
		"CONSUMER_FEED_EU_SINK": "file", "CONSUMER_FEED_EU_FILE_DIR": "/b", "CONSUMER_FEED_EU_TYPES": "run_*,!run_started",
	})
	c, err := loadConfig(env)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, x := range c.Consumers {
		got[x.Name] = x.File.Dir
	}
	if diff := cmp.Diff(map[string]string{"analytics": "/srv/events", "feed": "/a", "feed_eu": "/b"}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Patterns{"run_*", "!run_started"}, c.Consumers[2].Types); diff != "" {
		t.Error(diff)
	}
	if len(c.Consumers[1].Types) != 0 {
		t.Errorf("feed got the types of feed_eu: %q", c.Consumers[1].Types)
	}
	env["CONSUMER_FEED_EU_NOPE"] = "1"
	if _, err := loadConfig(env); err == nil || !strings.Contains(err.Error(), "for the consumer feed_eu") {
		t.Errorf("want the owner feed_eu named, got %v", err)
	}
}

func TestSecretsComeFromFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "url")
	url := "postgres://reader:from-file@db/app"
	if err := os.WriteFile(path, []byte(url+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := loadConfig(with("DOCKET_DATABASE_URL=", "DOCKET_DATABASE_URL_FILE="+path))
	if err != nil || c.Database.Docket.Reveal() != url {
		t.Errorf("got %q, %v", c.Database.Docket.Reveal(), err)
	}
	_, err = loadConfig(with("DOCKET_DATABASE_URL_FILE=" + path))
	if err == nil || !strings.Contains(err.Error(), "both set") {
		t.Errorf("both set: got %v", err)
	}
	_, err = loadConfig(with("DOCKET_DATABASE_URL=", "DOCKET_DATABASE_URL_FILE="+path+".gone"))
	if err == nil || !strings.Contains(err.Error(), "cannot be read") || strings.Contains(err.Error(), "is not set") {
		t.Errorf("missing file: got %v", err)
	}
}

func TestDatabaseCommandsNeedOnlyTheDatabase(t *testing.T) {
	db, _, err := loadDatabase(map[string]string{"DOCKET_DATABASE_URL": "postgres://db/app", "CONSUMER_FEED_SINK": "file"})
	if err != nil || db.ExportSchema != "docket_export" {
		t.Errorf("got %+v, %v", db, err)
	}
	_, _, err = loadDatabase(map[string]string{"DOCKET_DATABSE_URL": "postgres://db/app"})
	if err == nil || !strings.Contains(err.Error(), "did you mean DOCKET_DATABASE_URL?") {
		t.Errorf("misspelt: got %v", err)
	}
}
