package cursor

import (
	"slices"
	"time"

	exporter "github.com/docket-exporter/exporter"
)

// deadIDs spares writes of the dead ids, which are many and change seldom: they
// are written only when they differ and not more than once a second. What is
// due rides on a later write, at the latest on Release. A crash may forget the
// last second of them, which costs the sweep some ids to look at.
type deadIDs struct {
	stored exporter.Ranges
	wanted exporter.Ranges // of the last write that went through
	at     time.Time       // when stored was written
}

// due returns the text to write with dead, nil when there is nothing to write.
func (d *deadIDs) due(dead exporter.Ranges) *string {
	if time.Since(d.at) < time.Second {
		return nil
	}
	return d.changed(dead)
}

func (d *deadIDs) changed(dead exporter.Ranges) *string {
	if slices.Equal(dead, d.stored) {
		return nil
	}
	text := dead.String()
	return &text
}

// note keeps what a write that went through was asked to store, and whether it did.
func (d *deadIDs) note(dead exporter.Ranges, written bool) {
	if !slices.Equal(dead, d.wanted) {
		d.wanted = slices.Clone(dead)
	}
	if written {
		d.stored, d.at = d.wanted, time.Now()
	}
}
