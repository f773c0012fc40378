// Package relay is a TCP proxy for tests, in front of a server whose
// connections are to fail at a chosen moment.
package relay

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Relay passes bytes between its clients and a server until it is told not to.
// Its methods may be called from several goroutines.
type Relay struct {
	// Mute swallows what the server says and cuts the connection that it says it on.
	Mute atomic.Bool

	listener net.Listener
	to       string

	mu    sync.Mutex
	left  int64  // bytes of clients until do is called; 0 for never
	do    func() // called once
	conns []net.Conn
}

// New starts a relay to the server at an address. It ends with the test.
func New(t testing.TB, to string) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return On(t, l, to)
}

// On starts a relay whose clients come to a listener, which it closes.
func On(t testing.TB, l net.Listener, to string) *Relay {
	t.Helper()
	r := &Relay{listener: l, to: to}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { r.pass(client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // nothing was written to it
		r.Cut()
		wg.Wait()
	})
	return r
}

// Address is where clients connect to.
func (r *Relay) Address() string { return r.listener.Addr().String() }

// After calls do once, when so many further bytes of clients have passed and
// before any more do.
func (r *Relay) After(bytes int64, do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left, r.do = bytes, do
}

// CutAfter cuts all connections when so many further bytes of clients have passed.
func (r *Relay) CutAfter(bytes int64) { r.After(bytes, r.Cut) }

// Cut closes all connections. New ones can be made.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		_ = c.Close() // that is the purpose
	}
	r.conns = nil
}

func (r *Relay) pass(client net.Conn) {
	server, err := net.Dial("tcp", r.to)
	if err != nil {
		_ = client.Close() // as if the server had refused
		return
	}
	r.mu.Lock()
	r.conns = append(r.conns, client, server)
	r.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(server, &counted{client, r}) // ends when either side is cut
		_ = server.Close()
	})
	wg.Go(func() {
		_, _ = io.Copy(&muted{client, r}, server) // ends when either side is cut
		_ = client.Close()
	})
	wg.Wait()
}

// count notes bytes of a client and returns what is due now, if anything is.
func (r *Relay) count(bytes int) (due func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == 0 {
		return nil
	}
	if r.left -= int64(bytes); r.left > 0 {
		return nil
	}
	r.left = 0
	return r.do
}

// counted is a client's connection whose bytes are counted.
type counted struct {
	net.Conn
	r *Relay
}

// Read reads little at a time, so that what is due is done near its mark.
func (c *counted) Read(p []byte) (int, error) {
	const most = 1024
	n, err := c.Conn.Read(p[:min(len(p), most)])
	if due := c.r.count(n); due != nil {
		due()
	}
	return n, err
}

// muted swallows the server's bytes when asked to, and cuts the connection.
type muted struct {
	net.Conn
	r *Relay
}

func (m *muted) Write(p []byte) (int, error) {
	if m.r.Mute.Load() {
		return 0, io.ErrClosedPipe
	}
	return m.Conn.Write(p)
}
