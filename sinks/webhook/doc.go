// Package webhook delivers events as signed HTTP requests, one event each.
//
// Accepted means that the receiver has answered 2xx to every event of the
// batch. The events of a run are sent one after the other, each after the one
// before was accepted; several runs are sent beside each other. A lost answer
// is unknown, so the same event is sent again with the same idempotency key:
// the receiver drops it by that key, which package receiver does in one
// transaction with the effect.
//
// Requests carry a Standard Webhooks signature over the exact bytes of the
// body (https://www.standardwebhooks.com). Connections are made only to
// addresses that may be dialled, judged at the moment of dialling; redirects are
// not followed, and no proxy is taken from the environment.
package webhook
