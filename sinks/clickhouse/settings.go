package clickhouse

import (
	"context"
	"fmt"
	"strings"

	driver "github.com/ClickHouse/clickhouse-go/v2"
)

// Settings that decide what an insert's success means.
const (
	settingToken       = "insert_deduplication_token"
	settingDeduplicate = "insert_deduplicate"
	settingAsync       = "async_insert"
	settingWait        = "wait_for_async_insert"
	settingAsyncDedup  = "async_insert_deduplicate"
	settingPartitions  = "max_partitions_per_insert_block"
	settingForeground  = "insert_distributed_sync"
)

// knownSettings asks which of our settings the server has.
func knownSettings(ctx context.Context, conn driver.Conn) (map[string]bool, error) {
	names := []string{
		settingToken, settingDeduplicate, settingAsync, settingWait,
		settingAsyncDedup, settingPartitions, settingForeground,
	}
	rows, err := conn.Query(ctx, "SELECT name FROM system.settings WHERE name IN ('"+strings.Join(names, "', '")+"')")
	if err != nil {
		return nil, fmt.Errorf("ask the server for its settings: %w", err)
	}
	defer rows.Close()
	known := map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fmt.Errorf("ask the server for its settings: %w", err)
		}
		known[name] = true
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("ask the server for its settings: %w", err)
	}
	return known, nil
}

// insertSettings returns the settings of one insert. given are the DSN's,
// which win except where success would mean less with them.
func insertSettings(known map[string]bool, given driver.Settings, token string) driver.Settings {
	settings := driver.Settings{}
	set := func(name string, value any) {
		if known[name] {
			settings[name] = value
		}
	}
	suggest := func(name string, value any) {
		if _, is := given[name]; !is {
			set(name, value)
		}
	}
	set(settingToken, token)
	suggest(settingDeduplicate, 1)
	if on(given[settingAsync]) {
		set(settingWait, 1)
		suggest(settingAsyncDedup, 1)
	} else {
		set(settingAsync, 0) // newer servers have it on by default
	}
	// A batch may have events of many months or, in a user's table, days; the
	// server's limit would refuse it for ever, and with the code of an overload.
	suggest(settingPartitions, 0)
	// Else a Distributed table says yes when the rows are in a queue on its disk.
	set(settingForeground, 1)
	return settings
}

// on reads a setting's value as the DSN's parser leaves it.
func on(value any) bool {
	if custom, ok := value.(driver.CustomSetting); ok {
		value = custom.Value
	}
	text := fmt.Sprint(value)
	return text == "1" || strings.EqualFold(text, "true")
}
