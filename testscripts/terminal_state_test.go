//go:build linux

package testscripts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// scripts are the commands of a session. Each writes its number to the file pid, as the
// last thing before it waits.
var scripts = map[string]string{
	// waits until it is let go
	"waits": "echo $$ >pid; read -r _ <go; echo done >done; exit 5\n",
	// waits until it dies
	"sleeps": "echo $$ >pid; exec sleep 100\n",
	// reads a line
	"reads": "echo $$ >pid; read -r line; echo \"$line\" >line; exit 6\n",
	// has the terminal in raw mode, and waits until it dies
	"raw": "stty raw -echo; echo $$ >pid; exec sleep 100\n",
	// writes down what comes, until it reads a line
	"traps": `
for sig in HUP INT QUIT TERM USR1 USR2 CONT; do trap "echo $sig >>signals" $sig; done
trap 'stty size >>sizes; echo WINCH >>signals' WINCH
echo $$ >pid
until read -r line && [ "$line" ]; do :; done
echo "$line" >line
exit 4
`,
}

// starts enters a line that runs one of the scripts, and waits for it.
func (s *session) starts(line string) (pid int) {
	s.Helper()
	os.Remove(filepath.Join(s.dir, "pid"))
	s.enter(line)
	return s.started()
}

// started waits for the one of the scripts that runs next.
func (s *session) started() (pid int) {
	s.Helper()
	s.await("pid")
	return int(s.number("pid"))
}

// flockd is the number of the one that runs a command, and without one the command's.
func (s *session) flockd(pid int) int {
	if s.run == "" {
		return pid
	}
	return parent(pid)
}

func parent(pid int) (ppid int) {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	fmt.Sscanf(rest, "%c %d", new(rune), &ppid)
	return ppid
}

// letGo ends a wait of the script waits.
func (s *session) letGo() {
	s.Helper()
	os.Remove(filepath.Join(s.dir, "done"))
	file, err := os.OpenFile(filepath.Join(s.dir, "go"), os.O_RDWR, 0) // there need be no reader yet
	if err != nil {
		s.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("\n"); err != nil {
		s.Fatal(err)
	}
	s.await("done")
}

// stopped waits until a command is, and those who wait for it in its group are.
func (s *session) stopped(pid int) {
	s.Helper()
	until(s, "stopped", func() bool { return state(pid) == 'T' && state(s.flockd(pid)) == 'T' })
}

// runs waits until a command that was stopped goes on.
func (s *session) runs(pid int) {
	s.Helper()
	until(s, "going on", func() bool { return state(pid) != 'T' && state(s.flockd(pid)) != 'T' })
}

// dead waits for the end of a process.
func (s *session) dead(pid int) {
	s.Helper()
	until(s, "dead", func() bool { return over(state(pid)) })
}

// inFront waits until a command goes on in the foreground.
func (s *session) inFront(pid int) {
	s.Helper()
	until(s, "in the foreground", func() bool {
		group, err := unix.Getpgid(pid)
		return err == nil && group == s.foreground()
	})
	s.runs(pid)
}

// foreground is the terminal's foreground group.
func (s *session) foreground() (group int) {
	s.Helper()
	must(s, control(s.pty, func(fd int) (err error) {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	}))
	return group
}

// modes of the terminal.
func (s *session) modes() unix.Termios {
	s.Helper()
	var modes *unix.Termios
	must(s, control(s.pty, func(fd int) (err error) {
		modes, err = unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	}))
	return *modes
}

func (s *session) resize(rows, cols uint16) {
	s.Helper()
	must(s, resize(s.pty, rows, cols))
}

// got waits until the script traps has had a signal so many times.
func (s *session) got(sig string, times int) {
	s.Helper()
	until(s, fmt.Sprint(times, " ", sig), func() bool { return s.count(sig) >= times })
}

func (s *session) count(sig string) int { return strings.Count(s.text("signals"), sig+"\n") }

func (s *session) kill(pid int, sig syscall.Signal) {
	s.Helper()
	if err := unix.Kill(pid, sig); err != nil {
		s.Fatal(err)
	}
}

// lose removes the hold behind flockd's back.
func (s *session) lose() {
	s.Helper()
	db := openDB(filepath.Join(s.dir, "flockd.db"))
	defer db.Close()
	if _, err := db.Exec("DELETE FROM claims"); err != nil {
		s.Fatal(err)
	}
}

// given waits until nobody holds the key.
func (s *session) given() {
	s.Helper()
	if s.run != "" {
		s.rig.run(s.direct, "k", "--wait", patience.String(), "--", "true").ends(0)
	}
}

// traces attaches a debugger to a command.
func (s *session) traces(pid int) *job {
	s.Helper()
	j := s.launch(exec.Command("strace", "-o", "trace", "-p", fmt.Sprint(pid)))
	until(s, "a tracer", func() bool {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		return strings.Contains(string(status), fmt.Sprintf("\nTracerPid:\t%d\n", j.cmd.Process.Pid))
	})
	return j
}
