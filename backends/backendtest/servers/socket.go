package servers

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// inodeOf is the kernel's number for the socket of a TCP connection whose end local is
// on this machine: the tenth field of its line in /proc/net/tcp.
func inodeOf(local, remote *net.TCPAddr) (string, error) {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) > 9 && fields[1] == kernelName(local) && fields[2] == kernelName(remote) {
			return fields[9], nil
		}
	}
	return "", fmt.Errorf("no connection from %v to %v", local, remote)
}

// kernelName is an IPv4 address as /proc/net/tcp has it: in hexadecimal, the host in
// the machine's own byte order.
func kernelName(addr *net.TCPAddr) string {
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(addr.IP.To4()), addr.Port)
}

// hasSocket tells whether a process has a socket open.
func hasSocket(pid int, inode string) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, file := range files {
		if name, _ := os.Readlink(file); name == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}
