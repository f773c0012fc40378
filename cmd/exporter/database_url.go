package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DatabaseURL says how to reach a database. It usually holds a password, so
// however it is printed it shows only hosts and database.
type DatabaseURL struct {
	text     string
	variable string // in which it was given; empty when in none
}

// UnmarshalText reads a PostgreSQL URL or key=value pairs.
func (u *DatabaseURL) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if s == "" {
		return errors.New("is blank; write a URL such as postgres://exporter@db.example/app")
	}
	if scheme, _, ok := strings.Cut(s, "://"); ok && urlScheme.MatchString(scheme) && scheme != "postgres" && scheme != "postgresql" {
		return errors.New("has another scheme: the scheme must be postgres://")
	}
	config, err := pgxpool.ParseConfig(s)
	if err != nil {
		return errors.New(explainURL(err))
	}
	if misread(s, config.ConnConfig) {
		return errors.New(notAURL)
	}
	u.text = s
	return nil
}

var (
	urlScheme   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)
	settingName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)
)

// misread reports a URL that can be read, but only because a password that was
// not encoded went into other parts of it: user:12/x@db leads to the host user,
// and its database x@db would be shown.
func misread(text string, c *pgx.ConnConfig) bool {
	settings := slices.Collect(maps.Keys(c.RuntimeParams))
	if strings.Contains(text, "://") {
		u, err := url.Parse(text)
		if err == nil {
			settings = append(settings, slices.Collect(maps.Keys(u.Query()))...)
		}
		if strings.Contains(c.Database, "@") || strings.Contains(text, "#") {
			return true
		}
	}
	return slices.ContainsFunc(settings, func(name string) bool { return !settingName.MatchString(name) })
}

// same reports whether both URLs are written alike, in whatever variable.
func (u DatabaseURL) same(other DatabaseURL) bool { return u.text == other.text }

// IsZero reports whether the URL is not set.
func (u DatabaseURL) IsZero() bool { return u.text == "" }

// Reveal returns the URL with its password.
func (u DatabaseURL) Reveal() string { return u.text }

// String returns host:port/database, several hosts separated by commas.
func (u DatabaseURL) String() string {
	if u.IsZero() {
		return "(not set)"
	}
	config, err := pgxpool.ParseConfig(u.text)
	if err != nil {
		return "(hidden)"
	}
	c := config.ConnConfig
	hosts := []string{endpoint(c.Host, c.Port)}
	for _, f := range c.Fallbacks {
		if e := endpoint(f.Host, f.Port); !slices.Contains(hosts, e) {
			hosts = append(hosts, e)
		}
	}
	database := c.Database
	if database == "" {
		database = c.User // PostgreSQL's own default
	}
	return strings.Join(hosts, ",") + "/" + database
}

// GoString keeps %#v from printing the secret.
func (u DatabaseURL) GoString() string { return u.String() }

// LogValue keeps the log from printing the secret.
func (u DatabaseURL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalText keeps every encoder from printing the secret.
func (u DatabaseURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

func endpoint(host string, port uint16) string {
	if strings.HasPrefix(host, "/") {
		return host // a directory with a Unix socket
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// explainURL says what is wrong with a connection string in words that hold
// nothing of it: the driver's own words may quote a part of the password when
// that holds characters which end a URL's user information.
func explainURL(err error) string {
	reason := err.Error()
	if e, ok := errors.AsType[*pgconn.ParseConfigError](err); ok {
		reason = e.Error()
	}
	if i := strings.LastIndex(reason, "`: "); i >= 0 {
		reason = reason[i:]
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Sprintf("names a file that cannot be read: %v", e)
	}
	for _, r := range []struct{ seen, text string }{
		{"sslmode is invalid", "has an invalid sslmode; use disable, allow, prefer, require, verify-ca or verify-full"},
		{"configure TLS", "has TLS settings that do not work together; see sslmode, sslrootcert, sslcert and sslkey"},
		{"target_session_attrs", "has an unknown target_session_attrs; use any, read-write, primary, standby or prefer-standby"},
		{"port numbers to", "has another number of ports than hosts; give one port, or one for every host"},
		{"connect_timeout", "has an invalid connect_timeout; write seconds as a whole number"},
		{"failed to read service", "names a service that is not in the service file"},
		{"pool_", "has an invalid pool_ setting; leave pool settings such as pool_max_conns out"},
	} {
		if strings.Contains(reason, r.seen) {
			return r.text
		}
	}
	return notAURL
}

const notAURL = "is not a connection string; write postgres://user:password@host:5432/database, and in it write characters such as @ : / ? # % of the password as %40 %3A %2F %3F %23 %25"
