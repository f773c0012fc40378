package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// signer signs with several secrets.
type signer []*standardwebhooks.Webhook

const (
	secretPrefix = "whsec_"
	// leastSecret is the specification's shortest secret, in base64 characters
	// of 24 bytes.
	leastSecret = 32
)

// newSigner reads the secrets. Its errors do not repeat them.
func newSigner(secrets []string) (signer, error) {
	if len(secrets) == 0 {
		return nil, errors.New("no signing secret is set: set the consumer's …_WEBHOOK_SECRETS, " +
			"for example to whsec_ followed by the output of openssl rand -base64 32")
	}
	var s signer
	for i, secret := range secrets {
		key, ok := strings.CutPrefix(secret, secretPrefix)
		if !ok {
			return nil, fmt.Errorf("secret %d of …_WEBHOOK_SECRETS does not begin with %s: it must be that and base64", i+1, secretPrefix)
		}
		hook, err := standardwebhooks.NewWebhook(key)
		if err != nil {
			return nil, fmt.Errorf("secret %d of …_WEBHOOK_SECRETS is not base64 after %s", i+1, secretPrefix)
		}
		if len(key) < leastSecret {
			return nil, fmt.Errorf("secret %d of …_WEBHOOK_SECRETS is too short: it must hold at least 24 bytes", i+1)
		}
		s = append(s, hook)
	}
	return s, nil
}

// sign sets the Standard Webhooks headers for these bytes at this moment.
func (s signer) sign(h http.Header, id string, at time.Time, body []byte) error {
	signatures := make([]string, len(s))
	for i, hook := range s {
		signature, err := hook.Sign(id, at, body)
		if err != nil {
			return fmt.Errorf("sign: %w", err)
		}
		signatures[i] = signature
	}
	h.Set(standardwebhooks.HeaderWebhookID, id)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	return nil
}
