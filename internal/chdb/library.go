package chdb

import (
	"fmt"
	"os"
	"path/filepath"
)

// Version is the npm package's, which tools/setup.sh fetches.
const Version = "26.7.3-stable.1"

// libraryVariable names the library to use instead of the cached one.
const libraryVariable = "CHDB_LIB"

// FindLibrary returns the path of libchdb.so. The error says what to run.
func FindLibrary() (string, error) {
	if path := os.Getenv(libraryVariable); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("find ClickHouse's library: %s names none: %w", libraryVariable, err)
		}
		return path, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find ClickHouse's library: %w", err)
	}
	path := filepath.Join(cache, "docket-exporter", "chdb-"+Version, "libchdb.so")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("ClickHouse's library is not here: run `tools/setup.sh chdb`, or set %s: %w", libraryVariable, err)
	}
	return path, nil
}
