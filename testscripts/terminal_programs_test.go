//go:build linux

package testscripts

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"flockd/backends/backendtest/servers"
)

// A pager reads its keys while the command writes, and the command ends with it; and
// the other way round.
func TestTerminalPager(t *testing.T) {
	everyShell(t, func(s *session) {
		s.enter("RUN yes 'a line' | less")
		s.sees(`(a line\r*\n){23}`)
		s.keys(" ")
		s.sees(`(a line\r*\n){23}`)
		s.keys("q")
		s.prompt()
		s.note("status %s", s.status())
		s.given()
		s.enter("seq 1 100000 | RUN less")
		s.sees("23\r*\n")
		s.keys(" ")
		s.sees("46\r*\n")
		s.keys(ctrlZ)
		s.prompt()
		s.note("status %s", s.status())
		s.enter("fg")
		s.sees("46\r*\n")
		s.keys("q")
		s.prompt()
		s.note("status %s", s.status())
		s.given()
	})
}

// An editor edits, stops itself, and edits on.
func TestTerminalEditor(t *testing.T) {
	everyShell(t, func(s *session) {
		s.enter("RUN vi file")
		s.sees("~")
		s.keys("ia line\x1b:w\r")
		s.await("file")
		s.keys(ctrlZ)
		s.prompt()
		s.note("status %s, jobs: %s", s.status(), s.jobs())
		s.enter("fg")
		s.sees("a line")
		s.sees("~")
		s.keys("oanother\x1b:wq\r")
		s.prompt()
		s.note("status %s, file %q", s.status(), s.text("file"))
		s.given()
	})
}

// A command on another host has a terminal of its own, where ssh is under the lock and
// where flockd is at the far side.
func TestTerminalSSH(t *testing.T) {
	as(t, func(s *session) {
		host := newHost(s)
		for _, line := range []string{"RUN " + host.ssh("-t", "sh traps"), host.ssh("-t", "RUN sh traps")} {
			s.forgetSignals()
			s.starts(line)
			s.keys(ctrlC)
			s.got("INT", 1)
			s.resize(33, 77)
			s.got("WINCH", 1)
			s.resize(24, 80)
			s.got("WINCH", 2)
			s.keys("enough\r")
			s.prompt()
			s.note("status %s, %q", s.status(), strings.Fields(s.text("signals")))
			s.starts(strings.Replace(line, "traps", "sleeps", 1))
			s.keys(ctrlC)
			s.prompt()
			s.note("status %s", s.status())
			s.given()
		}
		s.enter("echo data | RUN " + host.ssh("-T", "cat; exit 3"))
		s.sees("data")
		s.prompt()
		s.note("status %s", s.status())
		s.enter("echo data | " + host.ssh("-T", "RUN sh -c 'cat; exit 3'"))
		s.sees("data")
		s.prompt()
		s.note("status %s", s.status())
	}, "bash")
}

func (s *session) forgetSignals() {
	os.Remove(filepath.Join(s.dir, "signals"))
}

// host is an ssh server with keys of its own.
type host struct {
	*session
	port int
}

const serverConfig = `
HostKey DIR/host
AuthorizedKeysFile DIR/user.pub
StrictModes no
UsePAM no
PidFile none
PrintMotd no
SetEnv PATH=%s FLOCKD_BACKEND=%s FLOCKD_CONFIG=/dev/null D=DIR
`

const clientConfig = `
Host far
	HostName 127.0.0.1
	Port %d
	User root
	IdentityFile DIR/user
	IdentitiesOnly yes
	StrictHostKeyChecking no
	UserKnownHostsFile /dev/null
	LogLevel ERROR
	SendEnv none
`

func newHost(s *session) host {
	s.Helper()
	for _, name := range []string{"host", "user"} {
		s.tool("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(s.dir, name))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { l.Close() })
	h := host{s, l.Addr().(*net.TCPAddr).Port}
	h.config("sshd_config", fmt.Sprintf(serverConfig, s.path, s.direct))
	h.config("ssh_config", fmt.Sprintf(clientConfig, h.port))
	go h.serve(l)
	return h
}

func (h host) config(name, text string) {
	h.script(name, strings.ReplaceAll(text, "DIR", h.dir))
}

// ssh is the line for a command at the host. It is shorter than the terminal is wide, however
// long the folder's name: of a longer one a shell may show the prompt once more.
func (h host) ssh(option, command string) string {
	return fmt.Sprintf(`ssh -F ssh_config %s far "cd \$D; %s"`, option, command)
}

// serve starts a server for each connection, as inetd does.
func (h host) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		file, err := conn.(*net.TCPConn).File()
		conn.Close()
		if err != nil {
			h.Error(err)
			return
		}
		// It wants this folder.
		cmd := exec.Command("unshare", "--mount", "sh", "-c", `mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$(command -v sshd)" -i -f "$0"`, filepath.Join(h.dir, "sshd_config"))
		cmd.Stdin, cmd.Stdout = file, file
		if err := servers.StartToDieWithUs(cmd); err != nil {
			h.Error(err)
		}
		file.Close()
		go cmd.Wait()
	}
}
