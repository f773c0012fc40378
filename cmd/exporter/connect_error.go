package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// explainConnect says which variable leads to the database that could not be
// reached, names it by host and database only, and says what usually helps. It
// is the one place for words about a failed connection.
func explainConnect(url DatabaseURL, err error) error {
	if err == nil {
		return nil
	}
	told := mostTelling(err)
	where := url.String()
	if url.variable != "" {
		where = url.variable + " (" + where + ")"
	}
	return withHint(fmt.Errorf("connect to %s: %w", where, told), connectHint(url, told))
}

// connectError is one attempt among those that failed, on one line. It unwraps
// to that attempt.
type connectError struct {
	text string
	err  error
}

func (e *connectError) Error() string { return e.text }
func (e *connectError) Unwrap() error { return e.err }

// mostTelling picks the attempt that says most. The driver tries each address
// of each host, with and without TLS, and joins what it met; one cause is then
// told several times, and the last attempt may only say that TLS is refused.
func mostTelling(err error) error {
	failed, ok := errors.AsType[*pgconn.ConnectError](err)
	if !ok {
		return &connectError{oneLine(err.Error()), err}
	}
	attempts := attemptsOf(failed.Unwrap())
	best := slices.MinFunc(attempts, func(a, b error) int { return cmp.Compare(telling(a), telling(b)) })
	text := strings.TrimPrefix(oneLine(attemptAddress.ReplaceAllString(best.Error(), "")), "dial error: ")
	if hosts := hostsOf(attempts); len(hosts) > 1 {
		text = hostsOf([]error{best})[0] + ": " + text + "; no other host of the URL can be used either"
	}
	return &connectError{text, best}
}

func attemptsOf(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// attemptAddress is what the driver puts before an attempt: the address, and
// in parentheses the host as it is written in the URL.
var attemptAddress = regexp.MustCompile(`^\S+ \((.*?)\): `)

func hostsOf(attempts []error) []string {
	var hosts []string
	for _, a := range attempts {
		host := "a host"
		if m := attemptAddress.FindStringSubmatch(a.Error()); m != nil {
			host = m[1]
		} else if e, ok := errors.AsType[*net.DNSError](a); ok {
			host = e.Name
		}
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// telling ranks an attempt: what the server itself said comes first, then what
// is wrong with TLS, and last that nobody answered.
func telling(err error) int {
	pg, said := errors.AsType[*pgconn.PgError](err)
	switch {
	case said && !withoutTLS(pg):
		return 0
	case said:
		return 1
	case isCertificate(err) || strings.Contains(err.Error(), notAsked):
		return 2
	case strings.Contains(err.Error(), tlsRefused):
		return 4
	case isTimeout(err):
		return 5
	default:
		return 3
	}
}

// tlsRefused is how the driver says that the server answered N to TLS.
const tlsRefused = "server refused TLS connection"

// notAsked is how the driver says that a server is not what
// target_session_attrs asks for.
const notAsked = "ValidateConnect failed"

// withoutTLS reports a refusal of pg_hba.conf to the attempt without TLS.
func withoutTLS(e *pgconn.PgError) bool {
	return e.Code == "28000" && (strings.Contains(e.Message, "no encryption") || strings.Contains(e.Message, "SSL off"))
}

func isCertificate(err error) bool {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &unknown) || errors.As(err, &name) || errors.As(err, &invalid)
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout() || errors.Is(err, context.DeadlineExceeded)
}
