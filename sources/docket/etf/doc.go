// Package etf renders Docket's durable events, Erlang external terms of the
// form {docket, 1, event, #{…}}, as JSON.
//
// It promises that a term is either rendered whole or refused with the byte
// offset of the first thing that is wrong; that time and memory are bounded by
// the length of the input (never by a length the input claims); and that it
// refuses what Docket's own codec refuses, apart from atoms that are merely
// unknown to a running Erlang node.
//
// The work is done in two passes. The first validates every byte and settles
// the kind of each map; it remembers only the maps that do not become plain
// JSON objects. The second appends the JSON. No term tree is built, and terms
// of the usual shapes need no allocation at all.
//
// # Rendering
//
//	97, 98, 110, 111   integer       1; outside int64 {"$int":"18446744073709551616"}
//	70, 99             float         1.5, 10.0, 1.0e22 (Erlang's shortest form)
//	100, 115, 118, 119 atom          "name"; true, false and nil are true, false and null
//	109                binary        "text"; not UTF-8: {"$bytes":"base64"}
//	106, 107, 108      list          [1,2]
//	104, 105           tuple         {"$tuple":[1,2]}
//	116                map           {"key":1}; see below
//	116                DateTime      "2026-07-29T12:34:56.000789Z"
//	116                MapSet        {"$set":[1,2]}, in Erlang's term order; compound
//	                                 members of one size in their encoded order
//	116                Docket struct {"$struct":"Docket.Schema","type":"string"}
//
// A map whose keys are all text (UTF-8 binaries and atoms), all different as
// text and none starting with "$", is an object. Any other map is
// {"$map":[[key,value],…]}. Entries keep their encoded order.
//
// Refused: everything else (compressed terms, processes, ports, references,
// functions, bit strings, improper lists), other structs, structs with other
// fields than Docket's, duplicate map keys, integers of more than 64 KiB, and
// anything but one map in the envelope.
//
// The format is described in the Erlang documentation, "External Term Format".
package etf
