//go:build unix

package postgres

import (
	"net"
	"syscall"
)

// alive reports, without waiting, that the server hasn't closed an idle connection. What came
// on it meanwhile may be a notification, or the reason why it is closed.
func alive(conn net.Conn) bool {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var first [1]byte
	n, failed := 0, error(nil)
	err = raw.Control(func(fd uintptr) { // Read would wait for a read that the library has under way, after a slow write
		n, _, failed = syscall.Recvfrom(int(fd), first[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	switch {
	case err != nil:
		return false
	case failed == syscall.EAGAIN || failed == syscall.EWOULDBLOCK:
		return true
	case failed != nil || n == 0:
		return false
	}
	return first[0] == 'A' || first[0] == 'S' || first[0] == 'N' // notification, changed setting, notice
}
