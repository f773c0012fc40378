package clickhouse

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/relay"
	"github.com/docket-exporter/exporter/internal/testca"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// terminator is a TLS end in front of a server, whose configuration can change.
type terminator struct {
	*relay.Relay

	mu     sync.Mutex
	config *tls.Config
}

func (e *terminator) set(c *tls.Config) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.config = c
}

// terminate makes a TLS end in front of the server at to.
func terminate(t *testing.T, to string) *terminator {
	t.Helper()
	e := &terminator{}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.config, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	e.Relay = relay.On(t, l, to)
	return e
}

// TestPrivateAuthority has a server whose certificate only a private CA vouches
// for, over both protocols: unknown, expired, for another host, and rotated
// while the sink is open.
func TestPrivateAuthority(t *testing.T) {
	conn := connect(t, oldServer.DSN())
	ownTable(t, conn, tableOf(t, "clickhouse"))
	for _, c := range []struct{ scheme, server string }{{"clickhouse", oldServer.Address()}, {"https", newServer.Address()}} {
		t.Run(c.scheme, func(t *testing.T) {
			dir, first, second, clients := t.TempDir(), testca.New(t), testca.New(t), testca.New(t)
			files := TLS{CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
			end := terminate(t, c.server)
			present := func(pair *tls.Certificate) {
				end.set(&tls.Config{Certificates: []tls.Certificate{*pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients.Pool()})
			}
			expired := testca.Here()
			expired.NotAfter = time.Now().Add(-time.Minute)

			first.Write(t, files.CAFile)
			testca.Write(t, clients.Sign(t, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}), files.CertFile, files.KeyFile)

			cfg := Config{DSN: c.scheme + "://" + end.Address() + "/default", Table: "TestPrivateAuthority_clickhouse", CreateTable: true, TLS: files}
			fails := func(when, text string) {
				t.Helper()
				err := open(t, cfg).Deliver(t.Context(), sinktest.Batch(1, 1, 1))
				if err == nil || special(err) || !strings.Contains(err.Error(), text) {
					t.Errorf("%s: got %v, want an outage that says %q", when, err, text)
				}
			}
			present(second.Sign(t, testca.Here()))
			fails("unknown authority", "unknown authority")
			present(first.Sign(t, expired))
			fails("expired", "expired")
			present(first.Sign(t, &x509.Certificate{DNSNames: []string{"elsewhere.example"}}))
			fails("another host", "127.0.0.1")
			present(first.Sign(t, testca.Here()))
			deliver(t, open(t, cfg), sinktest.Batch(1, 1, 1))

			s := open(t, cfg)
			deliver(t, s, sinktest.Batch(2, 1, 1))
			present(second.Sign(t, testca.Here()))
			second.Write(t, files.CAFile)
			end.Cut()
			insist(t, s, sinktest.Batch(3, 1, 1))
		})
	}
}
