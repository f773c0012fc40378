// Package chserver runs Debian's clickhouse-server for tests, as a private
// process with its own configuration and data: an old server (18.16), but a
// real one over the native protocol, to kill, freeze, cut off and restart.
//
// It has neither DateTime64 nor insert_deduplication_token; the tests make
// their tables accordingly. It is installed by `tools/setup.sh clickhouse`.
package chserver
