package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-exporter/exporter"
	"github.com/docket-exporter/exporter/internal/testca"
)

// TestPrivateAuthority has a receiver whose certificate only a private CA
// vouches for and that wants one of ours: unknown, expired, for another host,
// and rotated while the sink is open.
func TestPrivateAuthority(t *testing.T) {
	dir, first, second, clients := t.TempDir(), testca.New(t), testca.New(t), testca.New(t)
	files := TLS{CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	first.Write(t, files.CAFile)
	testca.Write(t, clients.Sign(t, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}), files.CertFile, files.KeyFile)

	var present atomic.Pointer[tls.Certificate]
	plain := newServer(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	end := &http.Server{Handler: plain, ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return present.Load(), nil },
		ClientAuth:     tls.RequireAndVerifyClientCert, ClientCAs: clients.Pool(),
	}}
	go end.ServeTLS(l, "", "")
	t.Cleanup(func() { _ = end.Close() })

	cfg := plain.config()
	cfg.URL, cfg.TLS = "https://"+l.Addr().String()+"/docket", files
	expired := testca.Here()
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
	present.Store(second.Sign(t, testca.Here()))
	fails("unknown authority", "unknown authority")
	present.Store(first.Sign(t, expired))
	fails("expired", "expired")
	present.Store(first.Sign(t, &x509.Certificate{DNSNames: []string{"elsewhere.example"}}))
	fails("another host", "127.0.0.1")

	present.Store(first.Sign(t, testca.Here()))
	s := open(t, cfg)
	deliver(t, s, b)
	list, err := s.Check(t.Context())
	if err != nil || len(list) != 2 || list[1].Level != exporter.LevelWarn || !strings.Contains(list[1].Text, "valid until") {
		t.Errorf("check found %v, %v; want a warning of a certificate that ends within the hour", list, err)
	}
	if n := len(plain.asked()); n != 1 {
		t.Errorf("%d requests, check must send none", n)
	}

	present.Store(second.Sign(t, testca.Here()))
	second.Write(t, files.CAFile)
	s.client.CloseIdleConnections() // as when the receiver is restarted
	deliver(t, s, b)
}
