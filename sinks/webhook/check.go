package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// Level says how bad a finding is.
type Level string

// The levels of findings.
const (
	LevelOK   Level = "ok"
	LevelWarn Level = "warn"
	LevelFail Level = "fail"
)

// Finding is one thing that Check has looked at.
type Finding struct {
	Level Level
	Text  string // what was seen
	Hint  string // what to do; empty when nothing
}

// soon is how long before its end a certificate is warned of.
const soon = 7 * 24 * time.Hour

// Check connects as a delivery would, with TLS where the URL says so, and sends
// nothing. An error says that the receiver could not be reached.
func (s *Sink) Check(ctx context.Context) ([]Finding, error) {
	var list []Finding
	add := func(level Level, hint, format string, args ...any) {
		list = append(list, Finding{Level: level, Text: fmt.Sprintf(format, args...), Hint: hint})
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
		add(LevelFail, "", "%s may not be dialled: %v", s.url.Host, err)
		return list, nil
	}
	if err != nil {
		return list, fmt.Errorf("check webhook receiver %s: %w", s.url.Host, err)
	}
	defer conn.Close()
	add(LevelOK, "", "receiver %s answers at %s; no event was sent", s.url.Host, conn.RemoteAddr())
	if !secure {
		add(LevelWarn, "use https unless the network between is yours", "events go to %s unencrypted; they are signed", s.url.Host)
		return list, nil
	}
	state := conn.(*tls.Conn).ConnectionState()
	until := state.PeerCertificates[0].NotAfter
	text := fmt.Sprintf("%s, certificate valid until %s", tls.VersionName(state.Version), until.UTC().Format(time.DateOnly))
	if time.Until(until) < soon {
		add(LevelWarn, "renew the receiver's certificate", "%s", text)
	} else {
		add(LevelOK, "", "%s", text)
	}
	return list, nil
}
