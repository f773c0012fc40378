// Package chdb runs ClickHouse 26.7 for tests: the library libchdb.so behind a
// small HTTP server, in a process of its own that can be killed, stopped and
// started again like a server.
//
// It speaks enough of ClickHouse's HTTP interface for clickhouse-go and for
// plain statements. It executes one statement at a time, has no users, and
// cannot interrupt a statement.
//
// The library is fetched by `tools/setup.sh chdb`; CHDB_LIB names another one.
package chdb
