// Command exporter copies the events of a Docket database to where they are
// wanted, and keeps one durable cursor per consumer.
//
// It is the only place of the module that reads the environment and that wires
// the packages together. It promises: results go to stdout and words to
// stderr; an error is printed once; secrets are printed never; and the exit
// code is 0 for done, 1 for failed, 2 for a mistake in usage or configuration
// and 3 when only a person can help.
package main
