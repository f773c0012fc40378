// Command server answers ClickHouse's HTTP interface with the ClickHouse
// library libchdb.so, one statement at a time, as far as clickhouse-go needs it.
//
//	server LIBRARY DIRECTORY ADDRESS
//
// It is a process of its own so that a crash in the library is a crash of the
// server and not of the test, and so that it can be killed like a server.
package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: server LIBRARY DIRECTORY ADDRESS")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(library, dir, address string) error {
	e, err := openEngine(library, dir)
	if err != nil {
		return err
	}
	s := http.Server{Addr: address, Handler: &handler{engine: e, spoolDir: filepath.Dir(dir)}, ReadHeaderTimeout: 10 * time.Second}
	return s.ListenAndServe()
}
