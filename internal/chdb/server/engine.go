package main

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// engine is one connection to the library. The library takes one statement at
// a time on a connection.
type engine struct {
	mu         sync.Mutex
	connection uintptr // a chdb_connection
	database   string  // the one in use

	query   func(connection uintptr, query *byte, size uintptr, format *byte, formatSize uintptr) uintptr
	buffer  func(result uintptr) unsafe.Pointer
	length  func(result uintptr) uintptr
	failure func(result uintptr) string
	destroy func(result uintptr)
}

// openEngine loads the library and opens the data in dir. The functions are
// those of chdb.h.
func openEngine(library, dir string) (*engine, error) {
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", library, err)
	}
	e := &engine{database: "default"}
	var connect func(argc int32, argv **byte) *uintptr
	purego.RegisterLibFunc(&connect, handle, "chdb_connect")
	purego.RegisterLibFunc(&e.query, handle, "chdb_query_n")
	purego.RegisterLibFunc(&e.buffer, handle, "chdb_result_buffer")
	purego.RegisterLibFunc(&e.length, handle, "chdb_result_length")
	purego.RegisterLibFunc(&e.failure, handle, "chdb_result_error")
	purego.RegisterLibFunc(&e.destroy, handle, "chdb_destroy_query_result")

	name, path := zeroEnded("clickhouse"), zeroEnded("--path="+dir)
	arguments := []*byte{&name[0], &path[0], nil}
	connection := connect(2, &arguments[0])
	runtime.KeepAlive(arguments)
	if connection == nil || *connection == 0 {
		return nil, fmt.Errorf("open %s with %s: the library gives no reason", dir, library)
	}
	e.connection = *connection
	return e, nil
}

func zeroEnded(s string) []byte { return append([]byte(s), 0) }

// run executes a statement and returns its result in the format.
func (e *engine) run(database, statement, format string) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if database != "" && database != e.database {
		if _, err := e.exec("USE `"+database+"`", format); err != nil {
			return nil, err
		}
		e.database = database
	}
	return e.exec(statement, format)
}

func (e *engine) exec(statement, format string) ([]byte, error) {
	text, ending := zeroEnded(statement), zeroEnded(format)
	result := e.query(e.connection, &text[0], uintptr(len(statement)), &ending[0], uintptr(len(format)))
	runtime.KeepAlive(text)
	runtime.KeepAlive(ending)
	if result == 0 {
		return nil, statementError("Code: 1002. DB::Exception: the library returned no result")
	}
	defer e.destroy(result)
	if text := e.failure(result); text != "" {
		return nil, statementError(text)
	}
	size := e.length(result)
	if size == 0 {
		return nil, nil
	}
	return append([]byte(nil), unsafe.Slice((*byte)(e.buffer(result)), size)...), nil
}

// statementError is the library's own text, which begins with "Code: N.".
type statementError string

func (e statementError) Error() string { return string(e) }
