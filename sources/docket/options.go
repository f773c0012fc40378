package docket

import (
	"cmp"
	"time"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sources/docket/etf"
	"github.com/jackc/pgx/v5/pgxpool"
)

// MaxOpenRanges is how many ranges of open ids a position may have before
// reading stops until some are settled.
const MaxOpenRanges = 10_000

// Limits bound one batch. At least one row is always read.
type Limits struct {
	Events int   // rows, filtered ones included; default 10,000
	Bytes  int64 // encoded payloads, metadata and run ids; default 6 MiB
}

// Options configure a Source. The zero value reads everything.
type Options struct {
	Schema           string         // of Docket's tables
	System           int64          // identifier of the server it must be; 0 for the one that is met first
	Seen             *Seen          // what it was when it was last read; nil when that is not known
	Mark             *exporter.Mark // a row that was read and must be there; nil for none
	Retention        time.Duration  // after which Docket prunes events; 0 for never
	Filters          Filters
	Limits           Limits
	PayloadKeys      []string      // top-level keys of payload to keep; nil keeps all
	NoPayload        bool          // payload is null
	StatementTimeout time.Duration // of each read; default 30 s
	Loss             LossRule
}

// New returns a Source that takes a connection from pool for each read.
func New(pool *pgxpool.Pool, o Options) *Source {
	s := &Source{
		pool: pool, schema: cmp.Or(o.Schema, "public"), system: o.System, retention: o.Retention,
		filters: o.Filters, limits: o.Limits, timeout: o.StatementTimeout,
		payload: etf.Decoder{Keys: o.PayloadKeys}, noPayload: o.NoPayload, patience: 200 * time.Millisecond,
		losses: losses{LossRule: o.Loss, told: o.Retention},
		seen:   o.Seen, mark: o.Mark, unverified: true, scanned: arena{shown: map[rendering][]byte{}},
	}
	if o.Seen != nil {
		s.system = o.Seen.System
	}
	if s.limits.Events <= 0 {
		s.limits.Events = 10_000
	}
	if s.limits.Bytes <= 0 {
		s.limits.Bytes = 6 << 20
	}
	if s.timeout <= 0 {
		s.timeout = 30 * time.Second
	}
	return s
}
