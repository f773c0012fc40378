// Package subprocess runs programs beside this process, for `exporter demo`, the
// soak and the servers of tests: their words go into a file, and on Linux they
// end when this process does, however that happens.
package subprocess
