package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// largestSecret bounds what is read for a NAME_FILE variable, bytes.
const largestSecret = 64 << 10

// expandFile puts the content of the file named by name_FILE into name. One
// trailing newline is cut, since editors and `echo` add it.
func expandFile(vars map[string]string, name string, ps *problems) {
	path := vars[name+"_FILE"]
	if path == "" {
		return
	}
	if vars[name] != "" {
		ps.add(name, "and %s_FILE are both set; keep one of them", name)
		return
	}
	if looksSecret(path) {
		ps.add(name+"_FILE", "wants the path of a file, but this looks like the value itself; set %s instead", name)
		return
	}
	content, err := os.ReadFile(path)
	switch {
	case err != nil:
		ps.add(name+"_FILE", "names a file that cannot be read: %s: %v", shownPath(path), reasonOf(err))
	case len(content) > largestSecret:
		ps.add(name+"_FILE", "names a file of %d bytes, too large for a secret: %s", len(content), path)
	default:
		text := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
		if text == "" {
			ps.add(name+"_FILE", "names an empty file: %s", path)
			return
		}
		vars[name] = text
	}
}

// shownPath repeats only what begins like a path: anything else may be the
// secret itself.
func shownPath(path string) string {
	if strings.HasPrefix(path, "/") || strings.HasPrefix(path, "./") || strings.HasPrefix(path, "../") {
		return path
	}
	return "(not shown: it does not begin with / or ./)"
}

// reasonOf leaves the path out of a file error that already names it.
func reasonOf(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// looksSecret reports whether a value given by mistake in place of something
// else is like a connection string, which no message may repeat.
func looksSecret(value string) bool {
	return strings.Contains(value, "@") || strings.Contains(value, "://") ||
		strings.Contains(strings.ToLower(value), "password=")
}
