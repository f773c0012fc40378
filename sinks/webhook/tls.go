package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLS names PEM files. They are read again for every connection, so that
// rotated files need no restart.
type TLS struct {
	CAFile   string // who signed the receiver's certificate; empty means the system's
	CertFile string // our certificate, for receivers that ask for one
	KeyFile  string // its key
}

// config returns what the files hold now, for a host.
func (t TLS) config(host string) (*tls.Config, error) {
	c := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if t.CAFile != "" {
		text, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the CA named by …_WEBHOOK_TLS_CA_FILE: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("file %s named by …_WEBHOOK_TLS_CA_FILE holds no certificate in PEM form", t.CAFile)
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, errors.New("…_WEBHOOK_TLS_CERT_FILE and …_WEBHOOK_TLS_KEY_FILE belong together: set both or none")
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("load …_WEBHOOK_TLS_CERT_FILE and …_WEBHOOK_TLS_KEY_FILE: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
