package webhook

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
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

func (a *authority) pair(t *testing.T, template *x509.Certificate) *tls.Certificate {
	t.Helper()
	der, key, _ := a.issue(t, template)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestPrivateAuthority has a receiver whose certificate only a private CA
// vouches for and that wants one of ours: unknown, expired, for another host,
// and rotated while the sink is open.
func TestPrivateAuthority(t *testing.T) {
	dir, first, second, clients := t.TempDir(), newAuthority(t), newAuthority(t), newAuthority(t)
	files := TLS{CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	writePEM(t, files.CAFile, "CERTIFICATE", first.certificate.Raw)
	der, key, _ := clients.issue(t, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	writePEM(t, files.CertFile, "CERTIFICATE", der)
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, files.KeyFile, "EC PRIVATE KEY", keyDER)

	var present atomic.Pointer[tls.Certificate]
	trusted := x509.NewCertPool()
	trusted.AddCert(clients.certificate)
	plain := newServer(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	end := &http.Server{Handler: plain, ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return present.Load(), nil },
		ClientAuth:     tls.RequireAndVerifyClientCert, ClientCAs: trusted,
	}}
	go end.ServeTLS(l, "", "")
	t.Cleanup(func() { _ = end.Close() })

	cfg := plain.config()
	cfg.URL, cfg.TLS = "https://"+l.Addr().String()+"/docket", files
	here := func() *x509.Certificate { return &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}} }
	expired := here()
	expired.NotAfter = time.Now().Add(-time.Minute)
	b, _ := one(t)
	fails := func(when, text string) {
		t.Helper()
		s := open(t, cfg)
		err := s.Deliver(t.Context(), b)
		if class(err) != "unavailable" || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v, want an outage that says %q", when, err, text)
		}
		if _, err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: check says %v", when, err)
		}
	}
	present.Store(second.pair(t, here()))
	fails("unknown authority", "unknown authority")
	present.Store(first.pair(t, expired))
	fails("expired", "expired")
	present.Store(first.pair(t, &x509.Certificate{DNSNames: []string{"elsewhere.example"}}))
	fails("another host", "127.0.0.1")

	present.Store(first.pair(t, here()))
	s := open(t, cfg)
	deliver(t, s, b)
	list, err := s.Check(t.Context())
	if err != nil || len(list) != 2 || list[1].Level != LevelWarn || !strings.Contains(list[1].Text, "valid until") {
		t.Errorf("check found %v, %v; want a warning of a certificate that ends within the hour", list, err)
	}
	if n := len(plain.asked()); n != 1 {
		t.Errorf("%d requests, check must send none", n)
	}

	present.Store(second.pair(t, here()))
	writePEM(t, files.CAFile, "CERTIFICATE", second.certificate.Raw)
	s.client.CloseIdleConnections() // as when the receiver is restarted
	deliver(t, s, b)
}
