//go:build !linux

package subprocess

import "syscall"

// attributes cannot tie the program's life to ours here.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
