// Package pgserver runs private PostgreSQL servers from the binaries of this
// machine: for `exporter demo`, for benchmarks and for tests.
//
// A cluster listens on 127.0.0.1 with a free port, trusts every connection and
// accepts the superuser "postgres". When the process is root the server runs
// as an unprivileged account, because PostgreSQL refuses root. A server never
// outlives the process that started it, however that process ends.
package pgserver
