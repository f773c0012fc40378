// Package promserver runs Debian's prometheus for tests, as a private process
// that scrapes what it is told, evaluates the rule files it is given, and is
// asked over its HTTP API. It never outlives the process that started it.
//
// It is installed by `tools/setup.sh prometheus`.
package promserver
