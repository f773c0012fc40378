// Package exporter delivers the events of a Docket database to a sink, in
// (run_id, seq) order, without losing one.
//
// The model has few words:
//
//	event     one row of docket_events, with its run's tenant and graph
//	position  a value: which event ids are done
//	cursor    a consumer's durable row holding its position
//	batch     the events between two positions
//	accept    the sink's durable yes
//
// A Pipeline copies one consumer's events. It reads a batch after the present
// position (Source), writes down what it is about to send (Cursor.Begin),
// sends it (Sink), and moves the cursor only after the sink has accepted
// (Cursor.Accept). A crash anywhere sends at most the batch in flight again;
// nothing is skipped.
//
// Ids are handed out when a row is inserted, but transactions commit in
// another order, so "everything up to the highest id seen" is not a position.
// A Position therefore carries the ids below its High that are still open.
//
// This package is the domain and the loop. It knows neither PostgreSQL nor
// any sink; those packages import this one.
package exporter
