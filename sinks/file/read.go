package file

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	exporter "github.com/docket-exporter/exporter"
)

// Reader reads what the files of a consumer and of its backfills hold, to compare
// it with the source: finished and open segments and the finished files of
// replays. What follows the last whole line of an open segment is being written;
// in a finished file it is a line that is no event. It writes nothing, and may
// work beside the owner.
//
// Events are told by a digest over their line or, without content, over what it
// begins with, their identity. A line of which no digest is compared is an event
// when its key is that of its identity.
type Reader struct {
	dir     string
	names   []string // of the consumer, and of its backfills
	ended   []string // names under which nobody writes any more
	content bool
	seed    maphash.Seed

	known   map[string]bool // names of indexed files, as they are when finished
	ids     exporter.Ranges // of which digests are compared
	chunks  []chunk
	foreign int64   // lines that are no events
	strange []Place // the first of them
}

// mostPlaces is how many lines that are no events are located.
const mostPlaces = 5

// chunk is a piece of a file with the span of the ids in it, so that a few ids
// are found again without reading everything.
type chunk struct {
	file   string
	offset int64
	size   int
	line   int64 // number of its first one
	events int64
	ids    exporter.Range
}

// readChunk is about how large a chunk is; one with a longer line is longer.
const readChunk = 4 << 20

// OpenReader looks at the directory. The files read are those that sinks of these
// names, and of Config.Former and Ended, have written; of the latter only the
// finished ones.
// Without content, digests cover the identity alone.
func OpenReader(cfg Config, names []string, content bool) (*Reader, error) {
	r := &Reader{dir: cfg.Dir, names: names, ended: slices.Concat(cfg.Former, cfg.Ended), content: content, seed: maphash.MakeSeed(), known: map[string]bool{}}
	if _, err := r.files(); err != nil {
		return nil, fmt.Errorf("read files of consumer %s: %w", names[0], err)
	}
	return r, nil
}

// Foreign returns how many lines were read that are no events.
func (r *Reader) Foreign() int64 { return r.foreign }

// ForeignAt returns where the first five of them are.
func (r *Reader) ForeignAt() []Place { return r.strange }

// Files returns how many files were read.
func (r *Reader) Files() int { return len(r.known) }

// Close gives back what Sum keeps.
func (r *Reader) Close() error {
	r.chunks = nil
	return nil
}

// Digester returns functions for one goroutine. The digest of a line is the sum
// of what event says of its event without the columns of its run, and run of
// these. Without content they do not count, and run is nil.
func (r *Reader) Digester() (event, run func(*exporter.Event) uint64) {
	var line []byte
	if !r.content {
		return func(e *exporter.Event) uint64 {
			line = e.Identity().AppendJSON(line[:0])
			return maphash.Bytes(r.seed, line)
		}, nil
	}
	event = func(e *exporter.Event) uint64 {
		line = e.AppendJSON(line[:0])
		head, _, tail := cutRun(line)
		return r.hash(head, tail)
	}
	run = func(e *exporter.Event) uint64 {
		line = append(e.AppendJSON(line[:0]), '\n')
		l, _ := parseLine(line)
		_, columns, _ := cutRun(line)
		return r.hash(l.run, columns)
	}
	return event, run
}

// hash is one of two texts. Sums of it tell when texts have changed places.
func (r *Reader) hash(a, b []byte) uint64 {
	return maphash.Bytes(r.seed, a) ^ bits.RotateLeft64(maphash.Bytes(r.seed, b), 32)
}

func (r *Reader) digest(l *line, text []byte) uint64 {
	if !r.content {
		return maphash.Bytes(r.seed, l.head)
	}
	head, columns, tail := cutRun(text[:len(text)-1])
	return r.hash(head, tail) + r.hash(l.run, columns)
}

// Sum reads all files and adds up the lines of events within ids by windows of
// 2^shift ids: how many there are, and the sum of their digests. A line that is
// there twice counts twice.
func (r *Reader) Sum(ctx context.Context, ids exporter.Ranges, shift uint, add func(window, lines int64, sum uint64)) error {
	r.ids = ids
	return r.index(ctx, func(id int64, digest uint64) { add(id>>shift, 1, digest) })
}

// Refresh takes in files that have come since.
func (r *Reader) Refresh(ctx context.Context) error {
	return r.index(ctx, func(int64, uint64) {})
}

// index reads the files that it does not know, and calls see for each line that
// is compared.
func (r *Reader) index(ctx context.Context, see func(id int64, digest uint64)) error {
	files, err := r.files()
	if err != nil {
		return fmt.Errorf("read files of consumer %s: %w", r.names[0], err)
	}
	for _, file := range files {
		finished := strings.TrimSuffix(file, openSuffix)
		if r.known[finished] {
			continue
		}
		r.known[finished] = true
		if err := r.file(ctx, file, see); err != nil {
			return fmt.Errorf("read file %s: %w", filepath.Join(r.dir, file), err)
		}
	}
	return nil
}

// files lists the files to read.
func (r *Reader) files() ([]string, error) {
	return r.list(func(file string) bool {
		of := func(name string) bool { return isFileOf(file, name) }
		return slices.ContainsFunc(r.names, of) || slices.ContainsFunc(r.ended, of) && !strings.HasSuffix(file, openSuffix)
	})
}

func (r *Reader) list(wanted func(file string) bool) (files []string, err error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, fmt.Errorf("list directory %s: %w", r.dir, err)
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() && wanted(entry.Name()) {
			files = append(files, entry.Name())
		}
	}
	return files, nil
}

// HasFilesOf reports whether the directory can be read and holds files that
// sinks of that name have written.
func (r *Reader) HasFilesOf(name string) bool {
	files, err := r.list(func(file string) bool { return isFileOf(file, name) })
	return err == nil && len(files) > 0
}

// LeftOpen returns the open segments of names under which nobody writes any more.
func (r *Reader) LeftOpen() ([]string, error) {
	return r.list(func(file string) bool {
		return strings.HasSuffix(file, openSuffix) && slices.ContainsFunc(r.ended, func(name string) bool { return isFileOf(file, name) })
	})
}

// isFileOf reports whether a file name is that of a segment of the consumer, or
// of a finished file that a replay of it has written: consumer-replay-…. What a
// killed replay has left open is never finished, so that its reader never gets it.
func isFileOf(file, consumer string) bool {
	rest, ok := strings.CutPrefix(file, consumer+"-")
	word, stamp, found := strings.Cut(rest, "-")
	replay := found && validConsumer(word)
	if replay {
		rest = stamp
	}
	if !ok {
		return false
	}
	n, isOpen, ok := parseName("x-" + rest)
	return ok && n.consumer == "x" && !(replay && isOpen)
}

// open opens a file that may have been finished since it was listed. It is nil
// when its reader has taken it away.
func (r *Reader) open(file string) (*os.File, error) {
	for _, name := range []string{file, strings.TrimSuffix(file, openSuffix)} {
		f, err := os.OpenFile(filepath.Join(r.dir, name), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, nil
}

// file reads a file from its beginning and remembers where its ids are.
func (r *Reader) file(ctx context.Context, file string, see func(id int64, digest uint64)) error {
	f, err := r.open(file)
	if f == nil || err != nil {
		return err
	}
	defer f.Close()
	lines := newForward(f)
	c := chunk{file: file, line: 1}
	for number := int64(1); ; number++ {
		text, err := lines.next()
		if errors.Is(err, io.EOF) {
			if len(text) > 0 && !strings.HasSuffix(f.Name(), openSuffix) {
				r.noEvent(file, number)
			}
			r.remember(&c, number)
			return nil
		}
		if err != nil {
			return err
		}
		if id, digest, compared, ok := r.event(text); !ok {
			r.noEvent(file, number)
		} else if c.include(id); compared {
			see(id, digest)
		}
		if c.size += len(text); c.size >= readChunk {
			if err := ctx.Err(); err != nil {
				return err
			}
			r.remember(&c, number+1)
		}
	}
}

// event returns the id of a line's event and, if it is compared, its digest; ok
// is false for a line that is no event.
func (r *Reader) event(text []byte) (id int64, digest uint64, compared, ok bool) {
	l, ok := parseLine(text)
	switch {
	case !ok:
	case r.compares(l.id):
		digest, compared = r.digest(&l, text), true
	default:
		ok = l.genuine(text)
	}
	return l.id, digest, compared, ok
}

func (r *Reader) compares(id int64) bool {
	if len(r.ids) == 1 {
		return id >= r.ids[0].Lo && id <= r.ids[0].Hi
	}
	return r.ids.Contains(id)
}

func (r *Reader) noEvent(file string, number int64) {
	if r.foreign++; len(r.strange) < mostPlaces {
		r.strange = append(r.strange, placeOf(file, number))
	}
}

func (c *chunk) include(id int64) {
	if c.events++; c.events == 1 {
		c.ids = exporter.Range{Lo: id, Hi: id}
	}
	c.ids.Lo, c.ids.Hi = min(c.ids.Lo, id), max(c.ids.Hi, id)
}

// remember ends a chunk and begins the next one, whose first line has the number
// next.
func (r *Reader) remember(c *chunk, next int64) {
	if c.events > 0 {
		r.chunks = append(r.chunks, *c)
	}
	*c = chunk{file: c.file, offset: c.offset + int64(c.size), line: next}
}
