package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// oldestMajor is the oldest PostgreSQL that Docket supports.
const oldestMajor = 13

// ErrNotInstalled says that no usable PostgreSQL server was found here.
var ErrNotInstalled = errors.New("no PostgreSQL server binaries found")

// Find returns the directory that holds initdb and postgres: the one on PATH,
// else the newest of the usual package locations. A server older than
// PostgreSQL 13 is passed over. The error wraps ErrNotInstalled and says what
// to install.
func Find() (bindir string, err error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil && usable(filepath.Dir(real)) {
			return filepath.Dir(real), nil
		}
	}
	best := 0
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"} {
		dirs, _ := filepath.Glob(pattern) // the patterns are well formed
		for _, dir := range dirs {
			if major := majorVersion(dir); major > best && usable(dir) {
				best, bindir = major, dir
			}
		}
	}
	if bindir == "" {
		return "", fmt.Errorf("%w (PostgreSQL %d or newer): install them with `apt-get install postgresql` "+
			"or `tools/setup.sh postgres`, or set DEMO_DATABASE_URL to a server of yours", ErrNotInstalled, oldestMajor)
	}
	return bindir, nil
}

// usable reports whether dir holds all the programs a cluster needs.
func usable(dir string) bool {
	for _, name := range []string{"initdb", "postgres", "pg_basebackup"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return false
		}
	}
	return majorVersion(dir) >= oldestMajor
}

var versionText = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// majorVersion asks dir's postgres for its major version, 0 if it has none.
func majorVersion(dir string) int {
	out, err := exec.CommandContext(context.Background(), filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0
	}
	match := versionText.FindSubmatch(out)
	if match == nil {
		return 0
	}
	major, _ := strconv.Atoi(string(match[1])) // the pattern admits digits only
	return major
}
