package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// dialer makes connections to addresses that may be dialled.
type dialer struct {
	net     net.Dialer
	allowed []netip.Prefix
	tls     TLS
}

// dialTimeout bounds connecting, and again the handshake, beside a request's
// own bound.
const dialTimeout = 10 * time.Second

func newDialer(c Config) *dialer {
	d := &dialer{allowed: c.AllowPrivate, tls: c.TLS}
	// The system calls this with the very address that it is about to connect
	// to, after the name was resolved: between the check and the connection no
	// second look-up can give another.
	d.net = net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("read address %q: %w", address, err)
		}
		return permit(at.Addr(), d.allowed)
	}}
	return d
}

// plain connects.
func (d *dialer) plain(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("read address: %w", err)
	}
	if metadataName(host) {
		return nil, errMetadataName
	}
	return d.net.DialContext(ctx, network, address)
}

var errMetadataName = errors.New("the name is that of a metadata service, which is never dialled")

// secure connects with TLS, with the files of the moment.
func (d *dialer) secure(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("read address: %w", err)
	}
	config, err := d.tls.config(host)
	if err != nil {
		return nil, err
	}
	raw, err := d.plain(ctx, network, address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's error says more
		return nil, fmt.Errorf("TLS with %s at %s: %w", host, raw.RemoteAddr(), err)
	}
	return conn, nil
}

// client keeps as many connections alive as there are requests at once.
func (d *dialer) client(concurrency int) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext: d.plain, DialTLSContext: d.secure,
			MaxIdleConns: concurrency, MaxIdleConnsPerHost: concurrency, IdleConnTimeout: 90 * time.Second,
			DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
