package proof

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// largest bounds a question and an answer: a key has 512 bytes, a reason as many, and JSON
// makes six of one at most.
const largest = 16 << 10

// address is where the hold is asked about. The ID isn't for all to read.
func address(id string) *net.UnixAddr {
	sum := sha256.Sum256([]byte("flockd check " + id))
	return &net.UnixAddr{Net: "unix", Name: "@flockd-" + hex.EncodeToString(sum[:16])}
}

// read reads one value.
func read(conn net.Conn, value any) error {
	return json.NewDecoder(io.LimitReader(conn, largest)).Decode(value)
}

func write(conn net.Conn, value any) error { return json.NewEncoder(conn).Encode(value) }

// peer is who is at the other end. Of a process in another namespace of processes the
// number is 0.
func peer(conn *net.UnixConn) (cred unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return cred, err
	}
	unasked := raw.Control(func(fd uintptr) {
		var found *unix.Ucred
		if found, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			cred = *found
		}
	})
	if unasked != nil {
		return cred, unasked
	}
	return cred, err
}

// nobody stands for all users whom a user namespace doesn't know; and is one, where none is unknown.
const nobody = 65534

// trusts reports whether the word of that user's is believed.
func trusts(uid uint32) bool {
	return uid == 0 || int(uid) == os.Geteuid() && (uid != nobody || knowsAll())
}

// knowsAll reports whether each user has a number of its own here.
func knowsAll() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && slices.Equal(strings.Fields(string(text)), []string{"0", "0", "4294967295"})
}
