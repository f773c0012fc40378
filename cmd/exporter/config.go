package main

import (
	"time"
)

// Config is everything that `run` and `check` are told by the environment. The
// type stays in this command: other packages take values.
type Config struct {
	Database  DatabaseConfig
	Exporter  ExporterConfig
	Log       LogConfig
	Consumers []ConsumerConfig // in the order of EXPORTER_CONSUMERS
}

// ExporterConfig is what all consumers of a process share.
type ExporterConfig struct {
	Consumers ConsumerNames `env:"EXPORTER_CONSUMERS,required" desc:"Names of the consumers to run, separated by commas. A name is a lower-case letter followed by lower-case letters, digits and underscores, at most 100 of them." example:"analytics,feed"`
	WatchConfig
	GuardConfig
	PollInterval     Duration `env:"EXPORTER_POLL_INTERVAL" envDefault:"100ms" desc:"Longest wait between two polls while nothing happens."`
	LeaseTTL         Duration `env:"EXPORTER_LEASE_TTL" envDefault:"15s" desc:"How long a replica that has died keeps its consumers before another one takes them. At least 1s."`
	ShutdownGrace    Duration `env:"EXPORTER_SHUTDOWN_GRACE" envDefault:"20s" desc:"How long a batch in flight may take after SIGTERM. Keep it below the time after which your supervisor kills."`
	StatementTimeout Duration `env:"EXPORTER_STATEMENT_TIMEOUT" envDefault:"30s" desc:"Longest time for one reading statement in the Docket database."`
	Memory           Size     `env:"EXPORTER_MEMORY" docDefault:"GOMEMLIMIT; else 96MiB and 12MiB for each consumer, at most 60 % of the container's limit" desc:"Memory from which on the process would rather work more than take more. A soft limit: what is in flight is never refused."`
	Replica          string   `env:"EXPORTER_REPLICA" docDefault:"host name and process id" desc:"Name of this process as owner of consumers. Two processes must never share it."`
}

// WatchConfig is what it takes to show how far consumers are.
type WatchConfig struct {
	Retention     Retention `env:"RETENTION_EVENTS,required" desc:"How long Docket keeps events (its event retention), or none when no pruner runs. Docket does not store it in the database, so it has to be told; it is checked against the table." example:"14d"`
	RetentionRuns Retention `env:"RETENTION_RUNS" docDefault:"not compared" desc:"How long Docket keeps finished runs (its run retention). Only compared with the table."`
	HTTPAddr      string    `env:"EXPORTER_HTTP_ADDR" envDefault:"127.0.0.1:9464" desc:"Address of the status page (/ and /status.json), /metrics, /livez and /readyz; off serves none. run --once listens only where this is set."`
	HTTPGiven     bool      // EXPORTER_HTTP_ADDR is set
	WebConfigFile string    `env:"EXPORTER_WEB_CONFIG_FILE" desc:"File with TLS and basic authentication for the HTTP address, in the format of the Prometheus exporter toolkit."`
}

// listenAddr is where run listens, "" for nowhere.
func (c *ExporterConfig) listenAddr(once bool) string {
	if once && !c.HTTPGiven {
		return "" // two runs at once, from timers for example, need no two ports
	}
	return c.HTTPAddr
}

// validate adds what single values cannot tell.
func (c *ExporterConfig) validate(ps *problems) {
	c.WatchConfig.validate(ps)
	c.GuardConfig.validate(ps, c.Retention)
	ps.atLeast("EXPORTER_POLL_INTERVAL", c.PollInterval, time.Millisecond)
	ps.atLeast("EXPORTER_LEASE_TTL", c.LeaseTTL, time.Second)
	ps.atLeast("EXPORTER_STATEMENT_TIMEOUT", c.StatementTimeout, 100*time.Millisecond)
}

func (c *WatchConfig) validate(ps *problems) {
	if runs := c.RetentionRuns.Value(); runs > 0 && runs < c.Retention.Value() {
		ps.add("RETENTION_RUNS", "is %s, less than RETENTION_EVENTS (%s), which Docket does not allow", c.RetentionRuns, c.Retention)
	}
	if c.HTTPAddr == "off" || c.HTTPAddr == "none" {
		c.HTTPAddr = ""
	} else if err := checkAddress(c.HTTPAddr); err != nil {
		ps.add("EXPORTER_HTTP_ADDR", "%q is not an address: %v; write host:port such as 127.0.0.1:9464, or off", c.HTTPAddr, err)
	}
	if err := checkWebConfig(c.WebConfigFile); err != nil {
		ps.add("EXPORTER_WEB_CONFIG_FILE", "%v", err)
	}
}
