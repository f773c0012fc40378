package clickhouse

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// relay is a TCP proxy in front of a server that can be cut.
type relay struct {
	listener net.Listener
	to       string
	// after is how many bytes of clients pass before they are cut once; 0 means
	// no limit. then is called at that moment.
	after atomic.Int64
	then  func()
	// answers says whether the server's bytes pass.
	mute atomic.Bool

	mu    sync.Mutex
	conns []net.Conn
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, to: to}
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
		r.cut()
		wg.Wait()
	})
	return r
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) pass(client net.Conn) {
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

func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		_ = c.Close() // that is the purpose
	}
	r.conns = nil
}

// counted cuts everything once enough bytes have passed.
type counted struct {
	net.Conn
	r *relay
}

func (c *counted) Read(p []byte) (int, error) {
	if len(p) > 1024 {
		p = p[:1024] // so that the cut is near the mark
	}
	n, err := c.Conn.Read(p)
	if left := c.r.after.Load(); left > 0 {
		if left -= int64(n); left > 0 {
			c.r.after.Store(left)
			return n, err
		}
		c.r.after.Store(0)
		if c.r.then != nil {
			c.r.then()
		}
		c.r.cut()
		return 0, io.ErrClosedPipe
	}
	return n, err
}

// muted swallows the server's bytes when asked to, and cuts the connection.
type muted struct {
	net.Conn
	r *relay
}

func (m *muted) Write(p []byte) (int, error) {
	if m.r.mute.Load() {
		return 0, io.ErrClosedPipe
	}
	return m.Conn.Write(p)
}
