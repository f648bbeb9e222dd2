package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Ports are taken from below the range that the kernel gives to clients (32768 and
// up, unless changed): in it, a client that dials a server which is down for a moment
// may be given the server's port, and even be connected to itself.
const (
	firstPort = 20000
	lastPort  = 32000
)

// address is a free address of this machine, which no other test of flockd is given
// before t ends, whether or not a server listens there at the time.
func address(t testing.TB) string {
	t.Helper()
	var errs []error
	for range 100 { // some may be taken, never so many
		port := firstPort + rand.IntN(lastPort-firstPort)
		release, err := reserve(port)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if err := vacant(addr); err != nil {
			release()
			errs = append(errs, err)
			continue
		}
		t.Cleanup(release)
		return addr
	}
	t.Fatalf("no free port: %v", errors.Join(errs...))
	return ""
}

// listen listens at an address that is ours. A listener that was closed a moment ago lives
// on in any process that is being started at the time, until it has become its program.
func listen(addr string) (*net.TCPListener, error) {
	for end := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
		l, err := net.Listen("tcp", addr)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			tcp, _ := l.(*net.TCPListener)
			return tcp, err
		}
	}
}

// unlisten closes a listener, and whatever lives on of it lets nobody in any more.
func unlisten(l *net.TCPListener) {
	if conn, err := l.SyscallConn(); err == nil {
		conn.Control(func(fd uintptr) { syscall.Shutdown(int(fd), syscall.SHUT_RD) })
	}
	l.Close()
}

// vacant tells whether nobody listens at addr.
func vacant(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("port is taken: %w", err)
	}
	return l.Close()
}
