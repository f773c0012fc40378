package pgserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// serverAttributes makes the program run as the account, in a process group of
// its own (a terminal's Ctrl-C is for us to act on), and end with us: SIGQUIT
// is PostgreSQL's immediate shutdown, which takes the children along.
func serverAttributes(as account) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	if as.switched {
		attr.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid, Groups: []uint32{as.gid}}
	}
	return attr
}

func ownedBy(info fs.FileInfo, a account) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == a.uid
}

// killTree sends SIGKILL to pid and its children and returns when the children
// are gone. The parent is stopped first, so that it can neither fork nor reap
// (a reaped child's number could belong to a stranger by now).
func killTree(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		if errors.Is(err, syscall.ESRCH) {
			return nil
		}
		return fmt.Errorf("stop server process %d: %w", pid, err)
	}
	children := childrenOf(pid)
	for _, child := range children {
		_ = syscall.Kill(child, syscall.SIGKILL) // already ended is as good
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill server process %d: %w", pid, err)
	}
	return awaitGone(children)
}

// awaitGone polls until none of the processes runs any more.
func awaitGone(pids []int) error {
	deadline := time.Now().Add(10 * time.Second)
	for _, pid := range pids {
		for {
			_, state, ok := processStat(pid)
			if !ok || state == "Z" || state == "X" {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("server process %d is still there 10 s after SIGKILL", pid)
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
	return nil
}

func childrenOf(parent int) []int {
	entries, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well formed
	var children []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			continue
		}
		if ppid, _, ok := processStat(pid); ok && ppid == parent {
			children = append(children, pid)
		}
	}
	return children
}

// processStat reads a process's parent and state (proc(5), fields 3 and 4; the
// name before them may contain spaces and parentheses).
func processStat(pid int) (ppid int, state string, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, "", false
	}
	end := strings.LastIndexByte(string(text), ')')
	if end < 0 {
		return 0, "", false
	}
	fields := strings.Fields(string(text[end+1:]))
	if len(fields) < 2 {
		return 0, "", false
	}
	ppid, err = strconv.Atoi(fields[1])
	return ppid, fields[0], err == nil
}

// removeSegment removes the System V shared memory that a killed postmaster
// left behind, named on line 7 of its postmaster.pid. It outlives processes and
// the machine has few of them. After an orderly end there is no such file.
func removeSegment(pidFile string) {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 7 {
		return
	}
	fields := strings.Fields(lines[6]) // key and id
	if len(fields) != 2 {
		return
	}
	if id, err := strconv.Atoi(fields[1]); err == nil {
		_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) // a few bytes stay at worst
	}
}

// lockOwnerFile makes dir's owner file and locks it. It gets its name only once
// it is locked, so that nobody takes the directory for an orphan before.
func lockOwnerFile(dir string) (*os.File, error) {
	path := filepath.Join(dir, ownerFile)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), os.Rename(path+".new", path)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// removeOrphans removes temporary directories in parent that are ours or the
// account's, whose owner file nobody locks, and whose server has ended.
func removeOrphans(parent string, a account) {
	dirs, _ := filepath.Glob(filepath.Join(parent, temporaryPrefix+"*")) // a literal but for the star
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || !(ownedBy(info, a) || ownedBy(info, account{uid: uint32(os.Geteuid())})) {
			continue
		}
		f, err := os.OpenFile(filepath.Join(dir, ownerFile), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && !serverLives(filepath.Join(dir, "data", "postmaster.pid")) {
			_ = os.RemoveAll(dir) // the next one tries again
		}
		_ = f.Close() // opened for its lock only
	}
}

// serverLives reports whether the postmaster that wrote the file may still run.
func serverLives(pidFile string) bool {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return true
	}
	name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return err == nil && strings.TrimSpace(string(name)) == "postgres"
}
