// Package testca is a private certificate authority for tests of TLS.
package testca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

// New makes an authority that nobody trusts yet.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{}
	c := a.Sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.key, a.certificate = c.PrivateKey.(*ecdsa.PrivateKey), c.Leaf
	return a
}

// Sign makes a certificate of a template, with a key of its own. It is valid for
// an hour where the template does not say until when.
func (a *Authority) Sign(t testing.TB, template *x509.Certificate) *tls.Certificate {
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
	parent, signer := a.certificate, a.key
	if signer == nil { // the authority's own
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// Here is the template of a server at 127.0.0.1.
func Here() *x509.Certificate {
	return &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
}

// Pool trusts the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// Write writes the authority's certificate.
func (a *Authority) Write(t testing.TB, path string) {
	t.Helper()
	write(t, path, "CERTIFICATE", a.certificate.Raw)
}

// Write writes a certificate and its key.
func Write(t testing.TB, c *tls.Certificate, certPath, keyPath string) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write(t, certPath, "CERTIFICATE", c.Leaf.Raw)
	write(t, keyPath, "PRIVATE KEY", key)
}

func write(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
