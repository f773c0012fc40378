package main

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

// urlWith changes a part of the URL of a database that exists.
func urlWith(t *testing.T, change func(*url.URL, url.Values)) string {
	t.Helper()
	u, err := url.Parse(pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	change(u, q)
	u.RawQuery = q.Encode()
	return u.String()
}

func TestConnectionErrorsNameVariableCauseAndHint(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(*url.URL, url.Values)
		want   []string
	}{
		{"no such database", func(u *url.URL, q url.Values) { u.Path = "/nosuch"; q.Set("sslmode", "prefer") }, []string{"does not exist", "check the database name in EXPORT_DATABASE_URL"}},
		{"pool size", func(_ *url.URL, q url.Values) { q.Set("pool_size", "10"); q.Set("sslmode", "prefer") }, []string{"leave pool_size out of EXPORT_DATABASE_URL"}},
		{"no TLS", func(_ *url.URL, q url.Values) { q.Set("sslmode", "require") }, []string{"refused TLS", "sslmode=disable in EXPORT_DATABASE_URL"}},
		{"read-only", func(_ *url.URL, q url.Values) {
			q.Set("options", "-cdefault_transaction_read_only=on")
			q.Set("target_session_attrs", "read-write")
		}, []string{"read only connection", "default_transaction_read_only is on there"}},
		{"no such host", func(u *url.URL, _ url.Values) { u.Host = "nosuch.invalid:5432" }, []string{`check the host name "nosuch.invalid" in EXPORT_DATABASE_URL`}},
		{"nobody listens", func(u *url.URL, q url.Values) { u.Host = closedPort(t); q.Set("sslmode", "prefer") }, []string{"connection refused", "check host and port in EXPORT_DATABASE_URL"}},
	} {
		env := map[string]string{"DOCKET_DATABASE_URL": "postgres://other/app", "EXPORT_DATABASE_URL": urlWith(t, x.change)}
		for _, args := range [][]string{{"status"}, {"migrate"}} {
			r := command(t, env, args...)
			r.want(t, exitFailed, append(x.want, "EXPORT_DATABASE_URL (")...)
			if text := strings.TrimSuffix(r.stderr, "\n"); strings.ContainsAny(text, "\n\t") {
				t.Errorf("%s: not one line: %q", x.name, text)
			}
			for cause := range strings.SplitSeq(r.stderr, "; ") {
				if strings.Count(r.stderr, cause) > 1 {
					t.Errorf("%s: said twice: %q", x.name, cause)
				}
			}
		}
	}
}

// A host that takes the connection and says nothing is no reason to wait for ever.
func TestHostThatNeverAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	env := map[string]string{"DOCKET_DATABASE_URL": "postgres://" + l.Addr().String() + "/app?connect_timeout=1"}
	command(t, env, "status").want(t, exitFailed, "DOCKET_DATABASE_URL ("+l.Addr().String(), "nothing answers there")
}

func TestMostTellingAttempt(t *testing.T) {
	password := &pgconn.PgError{Severity: "FATAL", Code: "28P01", Message: "password authentication failed"}
	plain := &pgconn.PgError{Severity: "FATAL", Code: "28000", Message: "no pg_hba.conf entry for host, no encryption"}
	away := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, attempts := range [][]error{
		{password, plain},
		{errors.New(tlsRefused), password},
		{away, plain, password},
	} {
		best := attempts[0]
		for _, a := range attempts {
			if telling(a) < telling(best) {
				best = a
			}
		}
		if best != error(password) {
			t.Errorf("of %v the most telling is %v", attempts, best)
		}
	}
	if telling(plain) > telling(away) || telling(away) > telling(errors.New(tlsRefused)) {
		t.Error("what a server said comes first, and what it refused of TLS last")
	}
	if hint := connectHint(DatabaseURL{variable: "X"}, plain); !strings.Contains(hint, "sslmode=require in X") {
		t.Errorf("the hint is %q", hint)
	}
}

func TestSecretGivenAsTheNameOfItsFile(t *testing.T) {
	for _, value := range []string{"postgres://u:hunter2@db/app", "host=db password=hunter2", "u:hunter2@db"} {
		env := minimal()
		delete(env, "DOCKET_DATABASE_URL")
		env["DOCKET_DATABASE_URL_FILE"] = value
		r := command(t, env, "check")
		r.want(t, exitUsage, "DOCKET_DATABASE_URL_FILE", "looks like the value itself; set DOCKET_DATABASE_URL instead")
		if strings.Contains(r.stdout+r.stderr, "hunter2") {
			t.Errorf("%s is shown: %s", value, r.stderr)
		}
	}
}

// A bare word may be a password, so only what begins like a path is repeated.
func TestBareWordAsTheNameOfASecretsFile(t *testing.T) {
	for value, shown := range map[string]bool{"hunter2": false, "/no/hunter2": true} {
		env := minimal()
		delete(env, "DOCKET_DATABASE_URL")
		env["DOCKET_DATABASE_URL_FILE"] = value
		_, err := loadConfig(env)
		if err == nil || strings.Contains(err.Error(), value) != shown {
			t.Errorf("%s: shown is not %v: %v", value, shown, err)
		}
	}
}

// A connection string in a variable that is meant for something else must not
// come back in the message that refuses it.
func TestSecretInTheWrongVariable(t *testing.T) {
	for _, value := range []string{"postgres://u:hunter2@db/app", "host=db password=hunter2"} {
		for _, v := range append(globalVariables(), consumerVariables()...) {
			if v.Name == "FILE_DIR" || v.Name == "EXPORTER_REPLICA" {
				continue // any text is right
			}
			name := v.Name
			if len(globalOnly(name)) == 0 {
				name = "CONSUMER_ANALYTICS_" + name
			}
			if _, err := loadConfig(with(name + "=" + value)); err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func globalOnly(name string) (found []variable) {
	for _, v := range globalVariables() {
		if v.Name == name {
			found = append(found, v)
		}
	}
	return found
}
