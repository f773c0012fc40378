package subprocess

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// FreePort finds a TCP port that nobody listens on, below the range that
// outgoing connections take theirs from, so that a restart finds it free.
func FreePort() (int, error) {
	for range 100 {
		port := 15000 + rand.IntN(17000)
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("release port %d: %w", port, err)
		}
		return port, nil
	}
	return 0, errors.New("find a free port on 127.0.0.1: none of 100 tried between 15000 and 31999 is free")
}
