package file

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	finishedSuffix = ".jsonl"
	openSuffix     = ".part" // after finishedSuffix
	stampLayout    = "20060102T150405.000000Z"
)

// name is what a segment's file name says.
type name struct {
	consumer string
	stamp    time.Time // UTC, to the microsecond
	firstID  int64     // id of the event in the first line
}

// finished is the file's name once it belongs to the reader.
func (n name) finished() string {
	return n.consumer + "-" + n.stamp.Format(stampLayout) + "-" + strconv.FormatInt(n.firstID, 10) + finishedSuffix
}

// open is the file's name while it is written.
func (n name) open() string { return n.finished() + openSuffix }

// parseName reads a file name. Anything that is not exactly a segment's name
// is somebody else's file.
func parseName(file string) (n name, isOpen, ok bool) {
	base, isOpen := strings.CutSuffix(file, openSuffix)
	base, ok = strings.CutSuffix(base, finishedSuffix)
	if !ok {
		return name{}, false, false
	}
	consumer, rest, _ := strings.Cut(base, "-")
	stamp, id, _ := strings.Cut(rest, "-")
	t, err1 := time.Parse(stampLayout, stamp)
	firstID, err2 := strconv.ParseInt(id, 10, 64)
	n = name{consumer, t, firstID}
	if err1 != nil || err2 != nil || !validConsumer(consumer) || n.finished() != base+finishedSuffix {
		return name{}, false, false
	}
	return n, isOpen, true
}

// validConsumer keeps path separators and the dash of our file names out.
func validConsumer(s string) bool {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// listing is what the directory holds of one consumer, oldest first.
type listing struct {
	finished, open []name
}

// newest returns the latest stamp, or the zero time.
func (l listing) newest() time.Time {
	var t time.Time
	for _, names := range [][]name{l.finished, l.open} {
		if k := len(names); k > 0 && names[k-1].stamp.After(t) {
			t = names[k-1].stamp
		}
	}
	return t
}

// list looks at the regular files of dir; os.ReadDir sorts them by name, and
// equally long stamps sort by time.
func list(dir, consumer string) (listing, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return listing{}, fmt.Errorf("list directory %s: %w", dir, err)
	}
	var l listing
	for _, entry := range entries {
		n, isOpen, ok := parseName(entry.Name())
		switch {
		case !ok || n.consumer != consumer || !entry.Type().IsRegular():
		case isOpen:
			l.open = append(l.open, n)
		default:
			l.finished = append(l.finished, n)
		}
	}
	return l, nil
}
