package clickhouse

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
)

// Config says which table of which servers gets the events.
type Config struct {
	// DSN is clickhouse-go's: clickhouse://user:password@host1:9000,host2:9000/database
	// for the native protocol, or http:// and https://. secure=true turns TLS
	// on. Parameters that clickhouse-go does not know are settings of every
	// statement.
	DSN string
	// Table is a table, or a database and a table with a dot between; empty
	// means docket_events.
	Table string
	// CreateTable makes the default table (DDL) when there is none.
	CreateTable bool
	// MaxEventBytes is the largest payload and metadata together, in bytes of
	// JSON, that is sent; a larger event is rejected as too_large. 0 means 64 MiB.
	MaxEventBytes int
	// TLS has the files of a private CA and of a client certificate.
	TLS TLS
	// Log says what is done beside inserting; nil discards.
	Log *slog.Logger
}

const (
	defaultTable    = "docket_events"
	defaultMaxBytes = 64 << 20
	// dialTimeout bounds connecting and the handshake, which no context ends.
	dialTimeout = 5 * time.Second
	// compressionBuffer is from how many bytes on the native protocol compresses
	// and sends what is encoded, between two columns.
	compressionBuffer = 1 << 20
)

func (c Config) withDefaults() Config {
	if c.Table == "" {
		c.Table = defaultTable
	}
	if c.MaxEventBytes <= 0 {
		c.MaxEventBytes = defaultMaxBytes
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// tableName admits what needs no escape within backquotes.
var tableName = regexp.MustCompile(`^([A-Za-z0-9_-]+\.)?[A-Za-z0-9_-]+$`)

// quoteTable puts backquotes around a table's name and its database's.
func quoteTable(name string) string {
	return "`" + strings.ReplaceAll(name, ".", "`.`") + "`"
}

// secured turns TLS on for https, which the driver wants to be told.
func secured(dsn string) string {
	if !strings.HasPrefix(dsn, "https://") || strings.Contains(dsn, "secure=") {
		return dsn
	}
	if strings.Contains(dsn, "?") {
		return dsn + "&secure=true"
	}
	return dsn + "?secure=true"
}

// why quotes the driver about a DSN, unless it quotes what may be a secret.
func why(err error, dsn string) string {
	if _, address := errors.AsType[*url.Error](err); address {
		return ""
	}
	_, account, _ := strings.Cut(dsn, "://")
	_, password, _ := strings.Cut(account[:strings.LastIndex(account, "@")+1], ":")
	password = strings.TrimSuffix(password, "@")
	if password != "" && strings.Contains(err.Error(), password) {
		return ""
	}
	return " (" + err.Error() + ")"
}

// options turns the configuration into the driver's.
func (c Config) options() (*driver.Options, error) {
	if c.DSN == "" {
		return nil, errors.New("no server is set: set the consumer's …_CLICKHOUSE_DSN")
	}
	if !tableName.MatchString(c.Table) {
		return nil, fmt.Errorf("table %q: …_CLICKHOUSE_TABLE must be table or database.table, of letters, digits, _ and -", c.Table)
	}
	o, err := driver.ParseDSN(secured(c.DSN))
	if err != nil {
		return nil, fmt.Errorf("…_CLICKHOUSE_DSN cannot be read%s: it must look like "+
			"clickhouse://user:password@host:9000/database, with special characters of the password as %%XX", why(err, c.DSN))
	}
	if o.Compression == nil {
		o.Compression = &driver.Compression{Method: driver.CompressionLZ4}
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = dialTimeout
	}
	if o.MaxCompressionBuffer == 0 {
		o.MaxCompressionBuffer = compressionBuffer
	}
	if o.MaxIdleConns == 0 {
		o.MaxIdleConns = 1 // a consumer delivers one batch at a time
	}
	if err := c.TLS.apply(o, c.Log); err != nil {
		return nil, err
	}
	guard(o)
	o.ClientInfo.Products = append(o.ClientInfo.Products, struct{ Name, Version string }{"docket-exporter", "1"})
	return o, nil
}
