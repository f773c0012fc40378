package main

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// connectHint says what to do about a connection that failed, "" when nothing
// more can be said.
func connectHint(url DatabaseURL, err error) string {
	at := url.variable
	if at == "" {
		at = "the URL"
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return serverHint(at, e)
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf("check the host name %q in %s", e.Name, at)
	}
	_, network := errors.AsType[*net.OpError](err)
	switch {
	case isCertificate(err):
		return "check the host name in " + at + " and the certificate authority: sslrootcert=FILE names it"
	case strings.Contains(err.Error(), tlsRefused):
		return "the server offers no TLS: switch it on there, or set sslmode=disable in " + at + " if the network can be trusted"
	case isTimeout(err):
		return "nothing answers there: check host and port in " + at + ", and whether a firewall drops the packets"
	case network:
		return "check host and port in " + at + ", and that the server runs and lets this machine in"
	case strings.Contains(err.Error(), "read only connection"):
		return "it is a standby, or default_transaction_read_only is on there: give the primary among the hosts of " + at + ", or switch that off"
	case strings.Contains(err.Error(), notAsked):
		return "no host in " + at + " is what its target_session_attrs asks for"
	}
	return ""
}

// serverHint is about what the server, or a pooler before it, has answered.
func serverHint(at string, e *pgconn.PgError) string {
	if name := refusedParameter(e); name != "" {
		return fmt.Sprintf("leave %s out of %s: the server does not know it; settings of a connection pool belong elsewhere", name, at)
	}
	switch e.Code {
	case "28P01":
		return "check user and password in " + at
	case "28000":
		if withoutTLS(e) {
			return "the server wants TLS, or does not let this machine in: set sslmode=require in " + at + ", or add a line to its pg_hba.conf"
		}
		return "check user and password in " + at + ", and the server's pg_hba.conf"
	case "3D000":
		return "check the database name in " + at
	case "42501":
		return "let an administrator grant CONNECT on the database to the user in " + at
	case "53300":
		return "raise max_connections, or stop clients that are not needed"
	case "57P03":
		return "the server is starting or stopping; try again"
	}
	return ""
}

// unknownSetting matches what the server, and what PgBouncer, says of a
// parameter of the URL that it does not know.
var unknownSetting = regexp.MustCompile(`unrecognized configuration parameter "([^"]+)"|unsupported startup parameter(?: in options)?: (\S+)`)

func refusedParameter(e *pgconn.PgError) string {
	m := unknownSetting.FindStringSubmatch(e.Message)
	if m == nil {
		return ""
	}
	return m[1] + m[2]
}
