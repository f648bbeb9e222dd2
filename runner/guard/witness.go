//go:build unix

package guard

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// witness tells flockd what people, or a supervisor, send to this process, which minds
// none of it: who has sent it to all processes of a unit, or of a tree, has sent it to the
// command as well.
func witness() {
	came := make(chan os.Signal, 8)
	signal.Notify(came, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM)
	go func() {
		for sig := range came {
			unix.Write(flockdFD, []byte{byte(sig.(syscall.Signal))})
		}
	}()
}

// Witness calls heard with each HUP, INT, QUIT and TERM that comes to the guard, until that
// has ended.
func (g *Guard) Witness(heard func(syscall.Signal)) {
	var buf [8]byte
	for {
		n, err := g.conn.Read(buf[:])
		for _, sig := range buf[:n] {
			heard(syscall.Signal(sig))
		}
		if err != nil {
			return
		}
	}
}
