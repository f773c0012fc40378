package receiver

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// DefaultTolerance is how far a request's timestamp may be from this machine's
// clock.
const DefaultTolerance = 5 * time.Minute

// Verifier knows the secrets that requests are signed with.
type Verifier struct {
	hooks     []*standardwebhooks.Webhook
	tolerance time.Duration
}

// What is wrong with a request that Verify refuses.
var (
	ErrForged = errors.New("no signature is made with a secret known here")
	ErrStale  = errors.New("the timestamp is too far from this machine's clock")
)

// NewVerifier reads secrets, each whsec_ and base64. During a rotation there
// are two. A tolerance of 0 means DefaultTolerance. The errors repeat no secret.
func NewVerifier(secrets []string, tolerance time.Duration) (*Verifier, error) {
	if len(secrets) == 0 {
		return nil, errors.New("no secret is given: without one, anybody could send events")
	}
	v := &Verifier{tolerance: tolerance}
	if tolerance == 0 {
		v.tolerance = DefaultTolerance
	}
	for i, secret := range secrets {
		key, ok := strings.CutPrefix(secret, "whsec_")
		hook, err := standardwebhooks.NewWebhook(key)
		if !ok || err != nil || len(key) < 32 {
			return nil, fmt.Errorf("secret %d must be whsec_ and the base64 of at least 24 bytes", i+1)
		}
		v.hooks = append(v.hooks, hook)
	}
	return v, nil
}

// Verify says whether somebody with a secret has signed these bytes, under the
// key in the header webhook-id, and not too long before or after now. Its
// error is ErrForged, or ErrStale for a timestamp that is signed.
func (v *Verifier) Verify(h http.Header, body []byte, now time.Time) error {
	if !v.signed(h, body) {
		return ErrForged
	}
	seconds, err := strconv.ParseInt(h.Get(standardwebhooks.HeaderWebhookTimestamp), 10, 64)
	if err != nil {
		return ErrForged
	}
	if at := time.Unix(seconds, 0); at.Before(now.Add(-v.tolerance)) || at.After(now.Add(v.tolerance)) {
		return ErrStale
	}
	return nil
}

func (v *Verifier) signed(h http.Header, body []byte) bool {
	for _, hook := range v.hooks {
		if hook.VerifyIgnoringTimestamp(body, h) == nil {
			return true
		}
	}
	return false
}
