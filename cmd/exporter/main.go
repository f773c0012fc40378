package main

import (
	"context"
	"io"
	"log"
	"os"
)

func main() {
	muteLibraries()
	ctx, stop := untilSignal(context.Background())
	code := Main(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// muteLibraries ends what libraries say past our log. net/http quotes there what
// a server sends unasked, and that may repeat secrets and payloads.
func muteLibraries() { log.SetOutput(io.Discard) }

// Main runs one command line and returns the exit code. It touches nothing of
// the process but what it is given, so that a test can call it. Environ is in
// the form of os.Environ; ctx ends when the process is asked to stop.
func Main(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return newProcess(environ, stdin, stdout, stderr).execute(ctx, args)
}

func (p *process) execute(ctx context.Context, args []string) int {
	root := newRootCommand(p)
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		printError(p.stderr, err)
		return exitCode(err)
	}
	return exitOK
}
