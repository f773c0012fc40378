package clickhouse

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"

	driver "github.com/ClickHouse/clickhouse-go/v2"
)

// TLS names PEM files. Any of them turns TLS on. They are read again for every
// connection, so that rotated files need no restart.
type TLS struct {
	CAFile   string // who signed the servers' certificates; empty means the system's
	CertFile string // our certificate, for servers that ask for one
	KeyFile  string // its key
}

// apply adds the files to the driver's options.
func (t TLS) apply(o *driver.Options, log *slog.Logger) error {
	if (t.CertFile == "") != (t.KeyFile == "") {
		return errors.New("…_CLICKHOUSE_TLS_CERT_FILE and …_CLICKHOUSE_TLS_KEY_FILE belong together: set both or none")
	}
	if o.TLS != nil && o.TLS.InsecureSkipVerify {
		log.Warn("the server's certificate is not verified: skip_verify is in the DSN")
		if t.CAFile != "" {
			return errors.New("the DSN has skip_verify and …_CLICKHOUSE_TLS_CA_FILE is set: remove one of them")
		}
	}
	if t == (TLS{}) {
		return nil
	}
	if o.TLS == nil {
		o.TLS = &tls.Config{}
	}
	o.TLS.MinVersion = tls.VersionTLS12
	fresh, err := t.reload(o.TLS)
	if err != nil {
		return err
	}
	o.TLS = fresh
	dial := func(ctx context.Context, addr string) (net.Conn, error) { return t.dial(ctx, addr, o) }
	if o.Protocol == driver.Native {
		o.DialContext = dial
		return nil
	}
	o.TransportFunc = func(transport *http.Transport) (http.RoundTripper, error) {
		transport.DialTLSContext = func(ctx context.Context, _, addr string) (net.Conn, error) { return dial(ctx, addr) }
		return transport, nil
	}
	return nil
}

// Unverified reports whether connections are encrypted without verifying who is
// at the other end: skip_verify is in the DSN. A DSN that cannot be read is
// Open's matter.
func (c Config) Unverified() bool {
	o, err := driver.ParseDSN(secured(c.DSN))
	return err == nil && o.TLS != nil && o.TLS.InsecureSkipVerify
}

// dial connects with the files of the moment. It gives crypto/tls the host's
// name or address to verify, also where an address cannot go into the hello.
func (t TLS) dial(ctx context.Context, addr string, o *driver.Options) (net.Conn, error) {
	config, err := t.reload(o.TLS)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return conn, nil
}

// reload returns a copy of the configuration with what the files hold now.
func (t TLS) reload(c *tls.Config) (_ *tls.Config, err error) {
	c = c.Clone()
	if t.CAFile != "" {
		if c.RootCAs, err = t.authorities(); err != nil {
			return nil, err
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("load …_CLICKHOUSE_TLS_CERT_FILE and …_CLICKHOUSE_TLS_KEY_FILE: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func (t TLS) authorities() (*x509.CertPool, error) {
	text, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the CA named by …_CLICKHOUSE_TLS_CA_FILE: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("file %s named by …_CLICKHOUSE_TLS_CA_FILE holds no certificate in PEM form", t.CAFile)
	}
	return pool, nil
}
