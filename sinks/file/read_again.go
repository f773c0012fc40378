package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	exporter "github.com/docket-exporter/exporter"
)

// Place is a line of a file.
type Place struct {
	File string // within the directory, named as it is when finished
	Line int64  // from 1
}

func placeOf(file string, line int64) Place { return Place{strings.TrimSuffix(file, openSuffix), line} }

// Rows calls visit for each line of an event within ids that Sum or Refresh has
// seen. The event is genuine when the line has the idempotency key of its
// identity.
func (r *Reader) Rows(ctx context.Context, ids exporter.Range, visit func(id exporter.Identity, digest uint64, genuine bool) error) error {
	return r.again(ctx, exporter.Ranges{ids}, func(l *line, text []byte, _ Place) error {
		return visit(l.identity(), r.digest(l, text), l.genuine(text))
	})
}

// Line is a line that tells an identity.
type Line struct {
	exporter.Identity
	Place
	Genuine bool   // it has the idempotency key of its identity
	Text    []byte // without its newline; valid until visit returns
}

// Lines calls visit for each line that Sum or Refresh has seen and that tells an
// id within ids.
func (r *Reader) Lines(ctx context.Context, ids exporter.Ranges, visit func(Line) error) error {
	return r.again(ctx, ids, func(l *line, text []byte, at Place) error {
		return visit(Line{l.identity(), at, l.genuine(text), text[:len(text)-1]})
	})
}

// Count returns how many lines that Sum or Refresh has seen are of events within
// ids.
func (r *Reader) Count(ctx context.Context, ids exporter.Ranges) (n int64, err error) {
	for i := range r.chunks {
		c := &r.chunks[i]
		switch span := (exporter.Ranges{c.ids}); {
		case len(span.Intersect(ids)) == 0:
		case len(span.Minus(ids)) == 0:
			n += c.events
		default:
			err = r.read(ctx, c, func(text []byte, _ int64) error {
				if id, _, _, ok := r.event(text); ok && ids.Contains(id) {
					n++
				}
				return nil
			})
			if err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

// again calls visit for each line that tells an id within ids.
func (r *Reader) again(ctx context.Context, ids exporter.Ranges, visit func(*line, []byte, Place) error) error {
	for i := range r.chunks {
		c := &r.chunks[i]
		if len((exporter.Ranges{c.ids}).Intersect(ids)) == 0 {
			continue
		}
		err := r.read(ctx, c, func(text []byte, number int64) error {
			if l, ok := parseLine(text); ok && ids.Contains(l.id) {
				return visit(&l, text, placeOf(c.file, number))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// read calls visit for the lines of a chunk.
func (r *Reader) read(ctx context.Context, c *chunk, visit func(text []byte, number int64) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.chunkLines(c, visit); err != nil {
		return fmt.Errorf("read file %s again: %w", filepath.Join(r.dir, c.file), err)
	}
	return nil
}

func (r *Reader) chunkLines(c *chunk, visit func(text []byte, number int64) error) error {
	f, err := r.open(c.file)
	if f == nil || err != nil {
		return err
	}
	defer f.Close()
	lines := newForward(io.NewSectionReader(f, c.offset, int64(c.size)))
	for number := c.line; ; number++ {
		text, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = visit(text, number)
		}
		if err != nil {
			return err
		}
	}
}
