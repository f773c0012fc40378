package clickhouse

import (
	"errors"
	"io"
	"net/http"

	driver "github.com/ClickHouse/clickhouse-go/v2"
)

// errEmptyBody says that the driver sent an insert without its rows.
var errEmptyBody = errors.New("the request's body is empty: its rows could not be encoded")

// guard makes a request over HTTP fail whose body turns out to be empty. When
// the driver cannot encode a block, it sends an empty body in its place, and
// the server says yes to an insert of no rows: that would be a false acceptance.
func guard(o *driver.Options) {
	if o.Protocol != driver.HTTP {
		return
	}
	next := o.TransportFunc
	o.TransportFunc = func(t *http.Transport) (http.RoundTripper, error) {
		if next == nil {
			return guarded{t}, nil
		}
		inner, err := next(t)
		return guarded{inner}, err
	}
}

type guarded struct{ next http.RoundTripper }

// RoundTrip sends the request with a body that cannot be empty.
func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r = r.Clone(r.Context())
		r.Body = &filled{ReadCloser: r.Body}
	}
	return g.next.RoundTrip(r)
}

// filled is a body that is an error when it ends before its first byte.
type filled struct {
	io.ReadCloser
	some bool
}

func (f *filled) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	f.some = f.some || n > 0
	if errors.Is(err, io.EOF) && !f.some {
		return n, errEmptyBody
	}
	return n, err
}
