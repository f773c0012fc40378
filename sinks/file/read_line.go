package file

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	exporter "github.com/docket-exporter/exporter"
)

// forward reads the whole lines of a file.
type forward struct {
	r    *bufio.Reader
	long []byte
}

func newForward(r io.Reader) *forward { return &forward{r: bufio.NewReaderSize(r, 256<<10)} }

// next returns the next line, its newline included. It is valid until the next
// call. With io.EOF it returns what follows the last whole line.
func (f *forward) next() ([]byte, error) {
	f.long = f.long[:0]
	for {
		piece, err := f.r.ReadSlice('\n')
		if err == nil && len(f.long) == 0 {
			return piece, nil
		}
		f.long = append(f.long, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return f.long, err
		}
	}
}

// line is the identity at the beginning of a line.
type line struct {
	head    []byte // up to the type: all that tells the identity
	run     []byte // a JSON string without its quotes
	seq, id int64
}

// parseLine reads the identity from where AppendJSON puts it. Within a JSON
// string no quote stands without a backslash, so the marks are not found there.
func parseLine(text []byte) (l line, ok bool) {
	rest, ok := bytes.CutPrefix(text, []byte(`{"run_id":"`))
	if !ok {
		return l, false
	}
	l.run, rest, ok = bytes.Cut(rest, []byte(`","seq":`))
	if !ok {
		return l, false
	}
	seq, rest, ok := bytes.Cut(rest, []byte(`,"event_id":`))
	if !ok {
		return l, false
	}
	id, rest, ok := bytes.Cut(rest, []byte(`,"type":`))
	if !ok || !bytes.HasSuffix(text, []byte("}\n")) {
		return l, false
	}
	l.head = text[:len(text)-len(rest)-len(`,"type":`)]
	var err1, err2 error
	l.seq, err1 = strconv.ParseInt(string(seq), 10, 64)
	l.id, err2 = strconv.ParseInt(string(id), 10, 64)
	return l, err1 == nil && err2 == nil
}

// cutRun cuts the columns of the run out of a line. A line that has none is all
// head.
func cutRun(text []byte) (head, columns, tail []byte) {
	i := bytes.Index(text, []byte(`,"tenant_id":`))
	if i < 0 {
		return text, nil, nil
	}
	n := bytes.Index(text[i:], []byte(`,"payload":`))
	if n < 0 {
		return text, nil, nil
	}
	return text[:i], text[i : i+n], text[i+n:]
}

func (l *line) identity() exporter.Identity {
	return exporter.Identity{RunID: l.runID(), Seq: l.seq, EventID: l.id}
}

// genuine reports whether a line has the idempotency key of its identity. The
// key of a run id that is no UTF-8 covers bytes that the line has not.
func (l *line) genuine(text []byte) bool {
	is, ok := keyOfLine(text)
	id := l.identity()
	var want key
	id.AppendKey(want[:0])
	return ok && (is == want || strings.ContainsRune(id.RunID, utf8.RuneError))
}

func (l *line) runID() string {
	if bytes.IndexByte(l.run, '\\') < 0 {
		return string(l.run)
	}
	var run string
	if json.Unmarshal(append(append([]byte{'"'}, l.run...), '"'), &run) != nil {
		return string(l.run)
	}
	return run
}
