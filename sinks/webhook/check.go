package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/docket-exporter/exporter"
)

// soon is how long before its end a certificate is warned of.
const soon = 7 * 24 * time.Hour

// Check connects as a delivery would, with TLS where the URL says so, and sends
// nothing. An error says that the receiver could not be reached.
func (s *Sink) Check(ctx context.Context) ([]exporter.Finding, error) {
	var list []exporter.Finding
	add := func(level exporter.Level, hint, format string, args ...any) {
		list = append(list, exporter.Finding{Level: level, Text: fmt.Sprintf(format, args...), Hint: hint})
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	secure, port := s.url.Scheme == "https", s.url.Port()
	dial := s.dialer.plain
	if secure {
		dial = s.dialer.secure
	}
	if port == "" {
		port = map[bool]string{true: "443", false: "80"}[secure]
	}
	conn, err := dial(ctx, "tcp", net.JoinHostPort(s.url.Hostname(), port))
	if _, refused := errors.AsType[*addressError](err); refused || errors.Is(err, errMetadataName) {
		add(exporter.LevelFail, "", "%s may not be dialled: %v", s.url.Host, err)
		return list, nil
	}
	if err != nil {
		return list, fmt.Errorf("check webhook receiver %s: %w", s.url.Host, err)
	}
	defer conn.Close()
	add(exporter.LevelOK, "", "receiver %s answers at %s; no event was sent", s.url.Host, conn.RemoteAddr())
	if !secure {
		add(exporter.LevelWarn, "use https unless the network between is yours", "events go to %s unencrypted; they are signed", s.url.Host)
		return list, nil
	}
	state := conn.(*tls.Conn).ConnectionState()
	until := state.PeerCertificates[0].NotAfter
	text := fmt.Sprintf("%s, certificate valid until %s", tls.VersionName(state.Version), until.UTC().Format(time.DateOnly))
	if time.Until(until) < soon {
		add(exporter.LevelWarn, "renew the receiver's certificate", "%s", text)
	} else {
		add(exporter.LevelOK, "", "%s", text)
	}
	return list, nil
}
