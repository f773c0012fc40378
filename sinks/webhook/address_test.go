package webhook

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/docket-exporter/exporter"
)

func TestPermit(t *testing.T) {
	every := networks("0.0.0.0/0", "::/0")
	for _, c := range []struct {
		want  string
		addrs string
		allow []netip.Prefix
	}{
		{"yes", "1.1.1.1 93.184.216.34 2606:4700::1111 64:ff9b::101:101 2002:0101:0101::1", nil},
		{"private", "127.0.0.1 10.1.2.3 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 100.127.255.255 169.254.1.1 0.0.0.0 0.1.2.3 " +
			"198.18.0.1 192.0.2.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255", nil},
		{"private", "::1 :: fc00::1 fd12::1 fe80::1 fe80::1%eth0 ff02::1 fec0::1 2001:db8::1 100::1 3fff::1 5f00::1 4000::1", nil},
		{"private", "::ffff:127.0.0.1 ::127.0.0.1 ::ffff:0:127.0.0.1 64:ff9b::7f00:1 64:ff9b::a00:1 64:ff9b:1::7f00:1 64:ff9b:1::101:101 " +
			"2002:7f00:1::1 2002:a00:1:: 2001:0:101:101::80ff:fffe 2606:4700::5efe:127.0.0.1 2606:4700::200:5efe:10.0.0.1", nil},
		{"metadata", "169.254.169.254 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 64:ff9b:1::a9fe:a9fe 2002:a9fe:a9fe:: fd00:ec2::254 " +
			"169.254.170.2 100.100.100.200 168.63.129.16 192.0.0.192 fd20:ce::254 ::169.254.169.254", every},
		{"yes", "127.0.0.1 10.1.2.3 ::1 fe80::1 64:ff9b::7f00:1", every},
		{"yes", "10.1.2.3 ::ffff:10.9.9.9 64:ff9b::a00:1", networks("10.0.0.0/8")},
		{"private", "11.0.0.0/8 127.0.0.1 192.168.1.1 64:ff9b::7f00:1", networks("10.0.0.0/8")},
	} {
		for text := range strings.FieldsSeq(c.addrs) {
			addr, err := netip.ParseAddr(text)
			if err != nil {
				continue
			}
			got := "yes"
			if e, refused := errors.AsType[*addressError](permit(addr, c.allow)); refused {
				got = map[bool]string{true: "metadata", false: "private"}[e.metadata]
			}
			if got != c.want {
				t.Errorf("%s with %v allowed: %s, want %s", text, c.allow, got, c.want)
			}
		}
	}
}

// An address of ours, in any of its spellings, pauses the consumer before
// anything is sent.
func TestPrivateAddressPauses(t *testing.T) {
	server := newServer(t)
	_, port, err := net.SplitHostPort(server.addr)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := one(t)
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[::ffff:169.254.169.254]", "169.254.169.254"} {
		cfg := server.config()
		cfg.AllowPrivate, cfg.URL = nil, "http://"+host+":"+port+"/"
		err := open(t, cfg).Deliver(t.Context(), b)
		if class(err) != "pause" {
			t.Errorf("%s: %v", host, err)
		}
	}
	if n := len(server.asked()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// Whoever controls a name lets it lead to an allowed address first and then to
// another: each connection is judged by the address that it goes to.
func TestRebinding(t *testing.T) {
	server := newServer(t)
	_, port, err := net.SplitHostPort(server.addr)
	if err != nil {
		t.Fatal(err)
	}
	second, err := net.Listen("tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Fatal(err)
	}
	go server.http.Serve(second) // closed with the server
	var last atomic.Int64
	last.Store(2)
	names := nameServer(t, func() [4]byte { return [4]byte{127, 0, 0, byte(last.Load())} })
	cfg := server.config()
	cfg.URL, cfg.AllowPrivate = "http://rebind.example:"+port+"/", networks("127.0.0.2/32")
	s := open(t, cfg)
	s.dialer.net.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", names)
	}}
	b, _ := one(t)
	deliver(t, s, b)
	last.Store(1)
	s.client.CloseIdleConnections()
	err = s.Deliver(t.Context(), b)
	pause, ok := errors.AsType[*exporter.PauseError](err)
	if !ok || !strings.Contains(pause.Detail, "127.0.0.1") || !strings.Contains(pause.Detail, "ALLOW_PRIVATE") {
		t.Errorf("got %v", err)
	}
	if n := len(server.asked()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// nameServer answers every question for an A record.
func nameServer(t *testing.T, answer func() [4]byte) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			end := 12
			for end < n && buf[end] != 0 {
				end += int(buf[end]) + 1
			}
			question := buf[12 : end+5]
			head := []byte{buf[0], buf[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}
			reply := append(head, question...)
			if binary.BigEndian.Uint16(question[len(question)-4:]) == 1 {
				ip := answer()
				reply[7] = 1
				reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ip[0], ip[1], ip[2], ip[3])
			}
			_, _ = conn.WriteTo(reply, from)
		}
	}()
	return conn.LocalAddr().String()
}

// A redirect is an answer for a person; nobody goes where it leads.
func TestRedirectIsNotFollowed(t *testing.T) {
	server, other := newServer(t), newServer(t)
	b, _ := one(t)
	for _, location := range []string{other.url(), "http://169.254.169.254/latest/meta-data/"} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			server.on(func(w http.ResponseWriter, _ request) bool {
				w.Header().Set("Location", location)
				w.WriteHeader(status)
				return true
			})
			if err := open(t, server.config()).Deliver(t.Context(), b); class(err) != "pause" {
				t.Errorf("%d: %v", status, err)
			}
		}
	}
	if n := len(other.asked()); n != 0 {
		t.Errorf("the redirect was followed %d times", n)
	}
}

// A proxy would dial for us, past every check.
func TestNoProxyFromTheEnvironment(t *testing.T) {
	proxy := newServer(t)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(name, "http://"+proxy.addr)
	}
	cfg := proxy.config()
	cfg.URL, cfg.AllowPrivate = "http://10.255.255.1:9/", nil
	b, _ := one(t)
	if err := open(t, cfg).Deliver(t.Context(), b); class(err) != "pause" || len(proxy.asked()) != 0 {
		t.Errorf("%v, %d requests at the proxy", err, len(proxy.asked()))
	}
}

func TestNameThatDoesNotResolveIsUnavailable(t *testing.T) {
	cfg := Config{URL: "http://nowhere.invalid/", Secrets: []string{secret}}
	s := open(t, cfg)
	addr := nameServer(t, func() [4]byte { return [4]byte{} })
	s.dialer.net.Resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no name server at " + addr)
	}}
	b, _ := one(t)
	if err := s.Deliver(t.Context(), b); class(err) != "unavailable" {
		t.Errorf("got %v", err)
	}
}
