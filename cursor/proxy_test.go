package cursor

import (
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"

	exporter "github.com/docket-exporter/exporter"
)

// Whichever answer of the database gets lost on the network, the same write
// made again settles what happened, and everything counts once.
func TestAnswerLostOnTheNetwork(t *testing.T) {
	t.Parallel()
	var proxy *dropper
	f := newFixture(t, func(dsn string) string {
		proxy = newDropper(t, dsn)
		return proxy.dsn
	})
	c, _ := f.claim("a")
	number, lost := int64(0), 0
	insist := func(write func() error) {
		t.Helper()
		for range 3 {
			if err := write(); err == nil {
				return
			}
			lost++
		}
		must(t, write())
	}
	const answers = 5 // begin, update, inserts, commit, and one more that never comes
	for n := range int32(answers) {
		number++
		to := exporter.Position{High: 10 * number}
		proxy.dropAfter(n + 1)
		insist(func() error {
			return c.Begin(t.Context(), exporter.Intent{Number: number, Attempt: 1, To: to})
		})
		proxy.dropAfter(n + 1)
		insist(func() error {
			return c.Accept(t.Context(), exporter.Acceptance{
				Number: number, To: to, Events: 1, DeadLetters: []exporter.DeadLetter{deadLetter(number)},
				Lost: []exporter.Loss{{Kind: exporter.LossDeliveryUnknown, IDs: exporter.Range{Lo: number, Hi: number}, Count: 1, Reason: "gone"}},
			})
		})
	}
	proxy.dropAfter(0)
	if lost < answers {
		t.Errorf("only %d answers were lost", lost)
	}
	if s := f.status(); s.EventsAccepted != answers || s.DeadLetters != answers || s.Losses != answers || s.Batch != answers {
		t.Errorf("%d events, %d dead letters, %d losses, batch %d; want %d of each", s.EventsAccepted, s.DeadLetters, s.Losses, s.Batch, answers)
	}
}

// dropper forwards connections to a server and can swallow an answer: the
// server has done the work, the client sees the connection end.
type dropper struct {
	dsn    string
	server string
	left   atomic.Int32 // answers until one is swallowed; 0 or less swallows none
}

func newDropper(t *testing.T, dsn string) *dropper {
	t.Helper()
	u, err := url.Parse(dsn)
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	d := &dropper{server: u.Host}
	u.Host = listener.Addr().String()
	d.dsn = u.String()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go d.forward(client)
		}
	}()
	return d
}

func (d *dropper) dropAfter(answers int32) { d.left.Store(answers) }

func (d *dropper) forward(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", d.server)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil || d.left.Add(-1) == 0 {
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}
