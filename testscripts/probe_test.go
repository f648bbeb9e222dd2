//go:build linux

package testscripts

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// probe is an awkward command: probe STAMPS [MODE...]. It writes the embedded
// store's clock to STAMPS over and over, so that the file tells when it last
// lived, and before that its number to STAMPS.pid and the first reading to
// STAMPS.first. Modes:
//
//	deaf    ignores TERM
//	family  has a child that does the same to STAMPS.child, and only waits
func probe() {
	stamps, modes := os.Args[1], os.Args[2:]
	for _, mode := range modes {
		switch mode {
		case "deaf":
			signal.Ignore(syscall.SIGTERM)
		case "family":
			cmd := exec.Command(os.Args[0], append([]string{stamps + ".child"}, without(modes, mode)...)...)
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			fatal(cmd.Start())
			fatal(os.WriteFile(stamps+".pid", []byte(strconv.Itoa(os.Getpid())), 0o600))
			fatal(cmd.Wait())
			return
		}
	}
	live(stamps)
}

// pause is between two stamps, so that several probes live beside each other.
const pause = 2 * time.Millisecond

// live writes the clock to stamps as long as it lives.
func live(stamps string) {
	fatal(os.WriteFile(stamps+".first", strconv.AppendInt(nil, monotonic(), 10), 0o600))
	f, err := os.Create(stamps)
	fatal(err)
	fatal(os.WriteFile(stamps+".pid", []byte(strconv.Itoa(os.Getpid())), 0o600))
	for ; ; time.Sleep(pause) {
		_, err := f.WriteAt(fmt.Appendf(nil, "%20d\n", monotonic()), 0)
		fatal(err)
	}
}

func without(list []string, name string) (rest []string) {
	for _, s := range list {
		if s != name {
			rest = append(rest, s)
		}
	}
	return rest
}

// closed runs a command with some of its descriptors closed: closed 0,2 COMMAND...
func closed() {
	path, err := exec.LookPath(os.Args[2])
	fatal(err)
	for text := range strings.SplitSeq(os.Args[1], ",") {
		fd, err := strconv.Atoi(text)
		fatal(err)
		syscall.Close(fd)
	}
	syscall.Exec(path, os.Args[2:], os.Environ())
}

// unread runs a command whose stderr is a full pipe: unread COMMAND...
func unread() {
	path, err := exec.LookPath(os.Args[1])
	fatal(err)
	var pipe [2]int
	fatal(syscall.Pipe2(pipe[:], syscall.O_NONBLOCK))
	for err = nil; err == nil; {
		_, err = syscall.Write(pipe[1], make([]byte, 4096))
	}
	fatal(syscall.SetNonblock(pipe[1], false))
	fatal(syscall.Dup2(pipe[1], 2))
	syscall.Exec(path, os.Args[1:], os.Environ())
}
