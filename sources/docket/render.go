package docket

import (
	"fmt"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sources/docket/etf"
)

// Renderer makes events of rows that were kept elsewhere, as a Source with the
// same options would have.
type Renderer struct {
	PayloadKeys []string // as in Options
	NoPayload   bool
}

// Render sets payload and metadata from Docket's own bytes. An error says that
// no sink can be given the event.
func (r Renderer) Render(e *exporter.Event) (err error) {
	if e.OccurredAt.IsZero() || e.InsertedAt.IsZero() {
		return fmt.Errorf("its time is infinity or -infinity")
	}
	payload, metadata := etf.Decoder{Keys: r.PayloadKeys}, etf.Decoder{}
	e.Payload, e.Metadata = nil, nil
	if !r.NoPayload {
		if e.Payload, err = payload.AppendJSON(nil, e.EncodedPayload); err != nil {
			return fmt.Errorf("payload: %w", err)
		}
	}
	if e.Metadata, err = metadata.AppendJSON(nil, e.EncodedMetadata); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	return nil
}
