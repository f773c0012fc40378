package clickhouse

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/relay"
	"github.com/docket-exporter/exporter/sinks/sinktest"
)

// authority is a private CA.
type authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	_, a.key, a.certificate = a.issue(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue signs a certificate; its own the first time.
func (a *authority) issue(t *testing.T, template *x509.Certificate) ([]byte, *ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "test"}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	template.NotBefore = template.NotAfter.Add(-2 * time.Hour)
	parent, signer := template, key
	if a.key != nil {
		parent, signer = a.certificate, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return der, key, parsed
}

func (a *authority) pair(t *testing.T, template *x509.Certificate) tls.Certificate {
	t.Helper()
	der, key, _ := a.issue(t, template)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// terminator is a TLS end in front of a server, whose configuration can change.
type terminator struct {
	*relay.Relay // behind it

	mu     sync.Mutex
	config *tls.Config
}

func (e *terminator) set(c *tls.Config) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.config = c
}

// terminate returns the address of a TLS end in front of the server at to.
func terminate(t *testing.T, to string) (*terminator, string) {
	t.Helper()
	e := &terminator{Relay: relay.New(t, to)}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.config, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { splice(client, e.Address()) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // nothing was written to it
		e.Cut()
		wg.Wait()
	})
	return e, l.Addr().String()
}

func splice(client net.Conn, to string) {
	server, err := net.Dial("tcp", to)
	if err != nil {
		_ = client.Close()
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
	wg.Go(func() { _, _ = io.Copy(client, server); _ = client.Close() })
	wg.Wait()
}

// TestPrivateAuthority has a server whose certificate only a private CA vouches
// for, over both protocols: unknown, expired, for another host, and rotated
// while the sink is open.
func TestPrivateAuthority(t *testing.T) {
	conn := connect(t, oldServer.DSN())
	ownTable(t, conn, tableOf(t, "clickhouse"))
	for _, c := range []struct{ scheme, server string }{{"clickhouse", oldServer.Address()}, {"https", newServer.Address()}} {
		t.Run(c.scheme, func(t *testing.T) {
			dir, first, second, clients := t.TempDir(), newAuthority(t), newAuthority(t), newAuthority(t)
			files := TLS{CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
			end, address := terminate(t, c.server)
			trusted := x509.NewCertPool()
			trusted.AddCert(clients.certificate)
			present := func(pair tls.Certificate) {
				end.set(&tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted})
			}
			here := func() *x509.Certificate { return &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}} }
			expired := here()
			expired.NotAfter = time.Now().Add(-time.Minute)

			writePEM(t, files.CAFile, "CERTIFICATE", first.certificate.Raw)
			der, key, _ := clients.issue(t, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
			writePEM(t, files.CertFile, "CERTIFICATE", der)
			keyDER, err := x509.MarshalECPrivateKey(key)
			if err != nil {
				t.Fatal(err)
			}
			writePEM(t, files.KeyFile, "EC PRIVATE KEY", keyDER)

			cfg := Config{DSN: c.scheme + "://" + address + "/default", Table: "TestPrivateAuthority_clickhouse", CreateTable: true, TLS: files}
			fails := func(when, text string) {
				t.Helper()
				err := open(t, cfg).Deliver(t.Context(), sinktest.Batch(1, 1, 1))
				if err == nil || special(err) || !strings.Contains(err.Error(), text) {
					t.Errorf("%s: got %v, want an outage that says %q", when, err, text)
				}
			}
			present(second.pair(t, here()))
			fails("unknown authority", "unknown authority")
			present(first.pair(t, expired))
			fails("expired", "expired")
			present(first.pair(t, &x509.Certificate{DNSNames: []string{"elsewhere.example"}}))
			fails("another host", "127.0.0.1")
			present(first.pair(t, here()))
			deliver(t, open(t, cfg), sinktest.Batch(1, 1, 1))

			s := open(t, cfg)
			deliver(t, s, sinktest.Batch(2, 1, 1))
			present(second.pair(t, here()))
			writePEM(t, files.CAFile, "CERTIFICATE", second.certificate.Raw)
			end.Cut()
			insist(t, s, sinktest.Batch(3, 1, 1))
		})
	}
}
