package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestDatabaseURLNeverShowsItsSecret(t *testing.T) {
	var u DatabaseURL
	if err := u.UnmarshalText([]byte("postgres://reader:topsecret@a:5433,b:5434/app?target_session_attrs=read-write&sslmode=disable")); err != nil {
		t.Fatal(err)
	}
	const want = "a:5433,b:5434/app"
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "url", u, "config", DatabaseConfig{Docket: u})
	js, err := json.Marshal(DatabaseConfig{Docket: u})
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []string{u.String(), fmt.Sprintf("%v %+v %#v %s", u, u, u, u), fmt.Sprintf("%+v", DatabaseConfig{Docket: u}), fmt.Sprintf("%#v", DatabaseConfig{Docket: u}), log.String(), string(js)} {
		if strings.Contains(got, "topsecret") || !strings.Contains(got, want) {
			t.Errorf("want %s and no password, got %s", want, got)
		}
	}
}

// Each of these makes the driver's own message quote a part of the password,
// or might after an upgrade of the driver.
func TestBadDatabaseURLs(t *testing.T) {
	for _, x := range []struct{ url, want string }{
		{"postgres://u:hunter2/x@db/app", "is not a connection string"},
		{"postgres://u:hunter2%zz@db/app", "is not a connection string"},
		{"postgres://u:hunter2@db:notaport/app", "is not a connection string"},
		{"host=db password=hunter2 port", "is not a connection string"},
		{"host=db password='hunter2", "is not a connection string"},
		{"postgres://u:hunter2@db/app?sslmode=maybe", "invalid sslmode"},
		{"postgres://u:hunter2@db/app?sslmode=verify-full&sslrootcert=/no/such/ca", "/no/such/ca"},
		{"postgres://u:hunter2@db/app?target_session_attrs=leader", "target_session_attrs"},
		{"postgres://u:hunter2@db/app?connect_timeout=soon", "connect_timeout"},
		{"postgres://u:hunter2@db/app?pool_max_conns=lots", "pool_"},
		{"ecto://u:hunter2@db/app", "the scheme must be postgres://"},
		{"mysql://u:hunter2@db/app", "the scheme must be postgres://"},
		{"postgres://u:12/hunter2@db/app", "is not a connection string"},
		{"postgres://u:12?hunter2@db/app", "is not a connection string"},
		{"postgres://u:12#hunter2@db/app", "is not a connection string"},
		{"   ", "is blank"},
	} {
		_, err := loadConfig(with("DOCKET_DATABASE_URL=" + x.url))
		if err == nil || !strings.Contains(err.Error(), "DOCKET_DATABASE_URL") || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", x.url, err, x.want)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the message holds the password: %v", x.url, err)
		}
	}
}
