package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/cursor"
)

// transferVersion is the version of the form in which positions are exported.
const transferVersion = 1

// transfer is a file of positions.
type transfer struct {
	Version      int             `json:"version"`
	System       int64           `json:"system_identifier,string,omitempty"` // of Docket's server; 0 where any will do
	DocketSchema string          `json:"docket_schema"`
	ExportedAt   time.Time       `json:"exported_at"`
	Consumers    []transferEntry `json:"consumers"`
}

type transferEntry struct {
	Consumer       string `json:"consumer"`
	Position       string `json:"position"`
	InFlight       int    `json:"events_in_flight,omitempty"` // of a batch that will be sent again
	EventsAccepted int64  `json:"events_accepted"`
}

func newCursorExportCommand(p *process) *cobra.Command {
	return &cobra.Command{
		Use:     "export [NAME]...",
		Short:   "Write positions as JSON, to keep them or to move them to another database",
		Example: "  exporter cursor export >positions.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return p.withStore(ctx, func(s *cursor.Store, db DatabaseConfig) error {
				list, err := liveConsumers(ctx, s, args)
				if err != nil {
					return err
				}
				bound, err := s.Source(ctx)
				if err != nil {
					return err
				}
				out := transfer{Version: transferVersion, DocketSchema: db.DocketSchema, ExportedAt: time.Now().UTC().Truncate(time.Second)}
				if bound != nil {
					out.System = bound.System
				}
				for _, k := range list {
					entry := transferEntry{Consumer: k.Name, Position: k.Position.String(), EventsAccepted: k.EventsAccepted}
					if k.Intent != nil {
						entry.InFlight = k.Intent.Events
					}
					out.Consumers = append(out.Consumers, entry)
				}
				return writeJSON(p.stdout, out)
			})
		},
	}
}

// liveConsumers returns the named consumers, all that are no backfill when
// none is named.
func liveConsumers(ctx context.Context, s *cursor.Store, names []string) ([]cursor.Status, error) {
	if len(names) == 0 {
		list, err := s.List(ctx)
		return slices.DeleteFunc(list, func(k cursor.Status) bool { return k.Kind != cursor.Live }), err
	}
	var list []cursor.Status
	for _, name := range names {
		status, err := consumerNamed(ctx, s, name)
		if err != nil {
			return nil, err
		}
		list = append(list, status)
	}
	return list, nil
}

const cursorImportHelp = `Read positions that ` + "`exporter cursor export`" + ` wrote: a consumer that does not
exist is made at its position, one that exists is moved there as by cursor set.
Every position is verified before anything is changed: it must not lie above
Docket's id sequence. The positions mean something only in the database they were
taken from, or in a physical copy of it: the file of another server is refused,
unless system_identifier is taken out of it.`

func newCursorImportCommand(p *process) *cobra.Command {
	var c change
	var takeOver bool
	cmd := &cobra.Command{
		Use:     "import FILE",
		Short:   "Make or move consumers to exported positions; - reads standard input",
		Long:    cursorImportHelp,
		Example: `  exporter cursor import positions.json --reason "new state database" --yes`,
		Args:    names("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.validate(cmd); err != nil {
				return err
			}
			in, err := p.readTransfer(args[0])
			if err != nil {
				return usage(fmt.Errorf("%s: %w", args[0], err))
			}
			ctx := cmd.Context()
			return p.withStore(ctx, func(s *cursor.Store, db DatabaseConfig) error {
				if in.DocketSchema != db.DocketSchema {
					return usage(fmt.Errorf("%s: the positions are of the Docket in schema %s, but DOCKET_SCHEMA is %s", args[0], in.DocketSchema, db.DocketSchema))
				}
				return p.withDocket(ctx, db, func(ctx context.Context, pool *pgxpool.Pool) error {
					i := cursorImport{process: p, store: s, docket: pool, db: db, file: args[0], takeOver: takeOver, change: &c}
					return i.run(ctx, in)
				})
			})
		},
	}
	c.flags(cmd, p)
	c.yesFlag(cmd)
	cmd.Flags().BoolVar(&takeOver, "take-over", false, "also move consumers that a process owns")
	return cmd
}

// readTransfer reads and checks a whole file before anything is changed.
func (p *process) readTransfer(name string) (transfer, error) {
	var in transfer
	file := io.Reader(p.stdin)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return in, errors.Unwrap(err)
		}
		defer f.Close()
		file = f
	}
	d := json.NewDecoder(file)
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return in, fmt.Errorf("not what `exporter cursor export` writes: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return in, errors.New("more than what `exporter cursor export` writes: something follows behind its end")
	}
	if in.Version != transferVersion {
		return in, fmt.Errorf("version %d, but this exporter reads version %d", in.Version, transferVersion)
	}
	if len(in.Consumers) == 0 {
		return in, errors.New("holds no consumer")
	}
	seen := map[string]bool{}
	for _, entry := range in.Consumers {
		if !consumerName.MatchString(entry.Consumer) || seen[entry.Consumer] {
			return in, fmt.Errorf("consumer %q is no name of a consumer, or is there twice", entry.Consumer)
		}
		seen[entry.Consumer] = true
		if _, err := exporter.ParsePosition(entry.Position); err != nil {
			return in, fmt.Errorf("consumer %s: %w", entry.Consumer, err)
		}
	}
	return in, nil
}
