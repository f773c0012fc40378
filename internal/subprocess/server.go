package subprocess

import (
	"os"
	"sync"
	"syscall"
)

// Server is a program that is started, frozen, killed and started again. Its
// methods may be called from several goroutines.
type Server struct {
	mu      sync.Mutex
	process *Process // nil while down
}

// Up starts the server unless it runs. The start returns once the server answers.
func (s *Server) Up(start func() (*Process, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		return nil
	}
	p, err := start()
	if err == nil {
		s.process = p
	}
	return err
}

// PID is the number of the server's process, 0 while it is down.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	return s.process.PID()
}

// Signal sends sig: SIGSTOP and SIGCONT freeze and thaw the server. One that is
// down gives os.ErrProcessDone.
func (s *Server) Signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return os.ErrProcessDone
	}
	return s.process.Signal(sig)
}

// Kill ends the server with SIGKILL.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	p := s.process
	s.process = nil
	return p.Kill()
}
