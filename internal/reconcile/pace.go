package reconcile

import (
	"errors"
	"math"

	exporter "github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/sources/docket"
)

// pace is how many ids one transaction on the source is asked for. Payloads may
// be so large that a usual number takes too long.
type pace struct{ most int64 }

// fewestIDs is where asking for fewer ends: then it is not the payloads.
const fewestIDs = 32

func newPace() *pace { return &pace{math.MaxInt64} }

// each calls read for all of ids in pieces that do not take too long.
func (p *pace) each(ids exporter.Range, read func(exporter.Range) error) error {
	for lo := ids.Lo; lo <= ids.Hi; {
		piece := exporter.Range{Lo: lo, Hi: ids.Hi}
		if ids.Hi-lo >= p.most {
			piece.Hi = lo + p.most - 1
		}
		err := read(piece)
		if n := piece.Hi - lo + 1; errors.Is(err, docket.ErrScanTooLong) && n > fewestIDs {
			p.most = max(n/2, fewestIDs)
			continue
		}
		if err != nil {
			return err
		}
		lo = piece.Hi + 1
	}
	return nil
}
