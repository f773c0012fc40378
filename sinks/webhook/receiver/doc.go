// Package receiver is the other end of the webhook sink: an http.Handler that
// lets an effect happen once for every event, however often the event comes.
//
// It verifies the signature over the raw body before anything reads the body,
// refuses requests that are forged or stale with nothing written, and runs the
// effect in one PostgreSQL transaction with the insert of the event's key into
// a ledger with a unique key. When the event comes again, the effect does not
// run: the result that the ledger stores is answered, with 200. Of two
// deliveries at the same time one waits for the other.
//
//	h, err := receiver.New(receiver.Config{Pool: pool, Secrets: secrets, Effect: effect})
//	http.Handle("POST /docket", h)
//
// The ledger is a table of the receiver's own database; Schema has its DDL.
// Keep its rows for as long as an event can come again: Docket's retention, and
// as long as dead letters are replayed.
package receiver
