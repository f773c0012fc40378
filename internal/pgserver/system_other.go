//go:build !linux

package pgserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// serverAttributes has nothing to set here: accounts are switched and servers
// tied to our life on Linux only.
func serverAttributes(account) *syscall.SysProcAttr { return nil }

func ownedBy(fs.FileInfo, account) bool { return false }

// killTree kills pid; its children see the postmaster's death and end.
func killTree(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("find server process %d: %w", pid, err)
	}
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill server process %d: %w", pid, err)
	}
	return nil
}

// removeSegment leaves the few bytes of shared memory to the system.
func removeSegment(string) {}

// lockOwnerFile makes the file; directories of killed processes are not looked
// for here.
func lockOwnerFile(dir string) (*os.File, error) {
	return os.Create(filepath.Join(dir, ownerFile))
}

func removeOrphans(string, account) {}
