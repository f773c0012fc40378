package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-exporter/exporter/internal/pgtest"
	"github.com/docket-exporter/exporter/internal/verdict"
)

// onlyForward makes the database refuse and remember a position that goes back.
func (s *site) onlyForward() {
	s.t.Helper()
	pgtest.Exec(s.t, s.pool, `CREATE FUNCTION docket_export.only_forward() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.high_id < OLD.high_id OR NEW.epoch < OLD.epoch THEN
			RAISE EXCEPTION 'the cursor goes back from % to %', OLD.high_id, NEW.high_id;
		END IF;
		RETURN NEW; END $$`)
	pgtest.Exec(s.t, s.pool, `CREATE TRIGGER only_forward BEFORE UPDATE ON docket_export.consumers FOR EACH ROW EXECUTE FUNCTION docket_export.only_forward()`)
}

func (s *site) ownedBy(replica string) bool { return s.owned(replica) == 1 }

// An owner that is stopped for three times its lease, wherever that catches
// it, is taken over from. When it wakes up its next write is refused, it stops
// within a second, and the cursor has never gone back.
func TestFrozenOwnerIsTakenOver(t *testing.T) {
	const ttl = 2 * time.Second
	for _, where := range []string{"anywhere", frozen} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			for range (rounds(t) + 4) / 5 {
				s := newSite(t)
				s.env["EXPORTER_LEASE_TTL"] = ttl.String()
				fault := ""
				if where == frozen {
					fault = frozen + " 1"
				}
				one := s.replica("one", fault)
				pgtest.Until(t, 20*time.Second, "an owner", func() bool { return s.ownedBy("one") })
				s.onlyForward()
				s.insert("r", 500)
				if where == frozen {
					one.awaitLine("at " + frozen)
				} else {
					s.await("analytics", 1)
					one.signal(syscall.SIGSTOP)
				}
				stopped := time.Now()
				two := s.replica("two", "")
				pgtest.Until(t, 20*time.Second, "the takeover", func() bool { return s.ownedBy("two") })
				s.insert("q", 1000)
				s.await("analytics", 1500)
				pgtest.Until(t, 20*time.Second, "three times the lease", func() bool { return time.Since(stopped) > 3*ttl })

				one.signal(syscall.SIGCONT)
				woken := time.Now()
				if where == frozen {
					one.awaitLine("at refused")
				}
				pgtest.Until(t, 5*time.Second, "the first owner to stop", func() bool {
					return strings.Contains(one.stderr.String(), "no longer the owner")
				})
				if took := time.Since(woken); took > time.Second {
					t.Errorf("it went on for %v\n%s", took, one.stderr)
				}
				s.insert("q", 10)
				s.await("analytics", 1510)
				for _, c := range []*child{one, two} {
					c.signal(syscall.SIGTERM)
					if code := c.wait(20 * time.Second); code != exitOK || strings.Contains(c.stderr.String(), "goes back") {
						t.Errorf("exit code %d\n%s", code, c.stderr)
					}
				}
				r, err := verdict.Read(t.Context(), s.pool, "public", nil, s.env["CONSUMER_ANALYTICS_FILE_DIR"], "analytics")
				if err != nil {
					t.Fatal(err)
				}
				if !r.Clean() || r.Events != 1510 {
					t.Errorf("%s\n%v", r, r.Examples)
				}
			}
		})
	}
}
