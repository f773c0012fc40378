package pgserver

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// settingsFile is included by postgresql.conf and written anew at every start,
// because the port may change. ALTER SYSTEM wins over it.
const settingsFile = "pgserver.conf"

// defaults are the settings of every cluster of ours; Options.Settings wins
// over them.
func defaults(durable bool) map[string]string {
	s := map[string]string{
		"listen_addresses":          "127.0.0.1",
		"max_connections":           "200",
		"max_prepared_transactions": "20",
		"shared_buffers":            "128MB",
		"autovacuum":                "on",
		"timezone":                  "UTC",
		"log_timezone":              "UTC",
		"log_line_prefix":           "%m [%p] %a ",
		"logging_collector":         "off",
		"log_destination":           "stderr",
		// Files in the data directory go away with it, also after SIGKILL.
		"dynamic_shared_memory_type": "mmap",
		"max_wal_size":               "1GB",
		"hot_standby":                "on",
	}
	if !durable {
		maps.Copy(s, map[string]string{"fsync": "off", "full_page_writes": "off"})
	}
	return s
}

// writeSettings writes the settings file of the data directory.
func (c *Cluster) writeSettings() error {
	s := defaults(c.options.Durable)
	maps.Copy(s, c.options.Settings)
	s["port"] = strconv.Itoa(c.port)
	s["unix_socket_directories"] = c.socketDir()

	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s)) {
		value := strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s[name])
		fmt.Fprintf(&text, "%s = '%s'\n", name, value)
	}
	path := filepath.Join(c.dataDir(), settingsFile)
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return fmt.Errorf("write server settings: %w", err)
	}
	return c.account.own(path)
}

// includeSettings makes a new data directory read our settings file.
func (c *Cluster) includeSettings() error {
	path := filepath.Join(c.dataDir(), "postgresql.conf")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open server configuration: %w", err)
	}
	_, err = fmt.Fprintf(f, "\ninclude_if_exists '%s'\n", settingsFile)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("extend server configuration %s: %w", path, err)
	}
	return nil
}
