package pgserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// temporaryPrefix begins the names of our temporary directories.
const temporaryPrefix = "pgserver-"

// ownerFile is locked by the process that made a temporary directory for as
// long as it lives and needs it.
const ownerFile = "owner.lock"

// temporaryDir is a directory that goes away with its server.
type temporaryDir struct {
	path  string
	owner *os.File
}

// newTemporaryDir makes a directory that the account can reach, and removes
// those of processes that were killed before they could.
func newTemporaryDir(a account) (*temporaryDir, error) {
	parent := os.TempDir()
	if a.reaches(filepath.Join(parent, "x")) != nil {
		parent = "/tmp"
	}
	removeOrphans(parent, a)
	path, err := os.MkdirTemp(parent, temporaryPrefix)
	if err != nil {
		return nil, fmt.Errorf("make server directory: %w", err)
	}
	owner, err := lockOwnerFile(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock server directory: %w", err), os.RemoveAll(path))
	}
	return &temporaryDir{path: path, owner: owner}, nil
}

// remove deletes the directory. It may be called again.
func (d *temporaryDir) remove() error {
	if d == nil {
		return nil
	}
	if err := os.RemoveAll(d.path); err != nil {
		return fmt.Errorf("remove server directory: %w", err)
	}
	_ = d.owner.Close() // it was never written
	return nil
}
