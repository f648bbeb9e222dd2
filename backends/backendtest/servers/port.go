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
		if err := vacant(port); err != nil {
			release()
			errs = append(errs, err)
			continue
		}
		t.Cleanup(release)
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	t.Fatalf("no free port: %v", errors.Join(errs...))
	return ""
}

// listen listens at an address that is ours. A listener that was closed a moment ago lives
// on in any process that is being started at the time, until it has become its program: on
// a busy host for more than a second.
func listen(addr string) (*net.TCPListener, error) {
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
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

// vacant tells whether nobody listens on a port of this machine. It doesn't listen itself: what
// lives on of a socket, as said at listen, is then in no server's way.
func vacant(port int) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return fmt.Errorf("look at a port: %w", err)
	}
	defer syscall.Close(fd)
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return fmt.Errorf("look at a port: %w", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return fmt.Errorf("port %d is taken: %w", port, err)
	}
	return nil
}
