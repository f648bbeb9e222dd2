//go:build linux

package testscripts

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// end is a way in which a command ends that has the terminal in raw mode.
type end struct {
	name, run, status string
	do                func(s *session, pid int)
}

var ends = []end{
	{"loss", "flockd run --key k --ttl 12s -- ", "79", func(s *session, _ int) { s.lose() }},
	{"max-runtime", "flockd run --key k --max-runtime 12s -- ", "124", func(*session, int) {}},
	{"killed", locked, "137", func(s *session, pid int) { s.kill(parent(pid), syscall.SIGKILL) }},
	{"frozen", "flockd run --key k --ttl 12s -- ", "79", func(s *session, pid int) {
		flockd := parent(pid)
		s.kill(flockd, syscall.SIGSTOP)
		s.dead(pid)
		s.kill(flockd, syscall.SIGCONT)
	}},
}

// Where flockd or its guard ends a command, a script has the terminal as it was.
func TestTerminalGivenBackToAScript(t *testing.T) {
	givenBack(t, ends, func(s *session, end end) {
		s.script("steps", "RUN sh raw\necho $? >status\nread -r line; echo \"$line\" >line\n")
		s.starts("sh waits")
		before := s.modes()
		s.letGo()
		s.prompt()
		pid := s.starts(s.shell + " ./steps")
		s.isRaw()
		end.do(s, pid)
		s.dead(pid)
		s.await("status")
		until(s, "the modes of before", func() bool { return s.modes() == before })
		s.keys("a line\r")
		s.await("line")
		s.prompt()
		if status, line := s.text("status"), s.text("line"); status != end.status+"\n" || line != "a line\n" {
			s.Errorf("status %sline %s", status, line)
		}
		s.given()
	}, "bash", "dash", "zsh")
}

// An interactive shell has it as before.
func TestTerminalGivenBackToAShell(t *testing.T) {
	givenBack(t, ends[:2], func(s *session, end end) {
		before := s.atPrompt()
		pid := s.starts("RUN sh raw")
		s.isRaw()
		end.do(s, pid)
		s.dead(pid)
		s.prompt()
		until(s, "the modes of before", func() bool { return s.modes() == before })
		if status := s.status(); status != end.status {
			s.Errorf("status %s", status)
		}
		s.given()
	}, "bash", "dash", "zsh")
}

// Where flockd is killed, the shell may have the terminal before the guard has, and edits
// lines: nothing comes late, and takes it from the shell again.
func TestTerminalLeftToAShell(t *testing.T) {
	locks(t, func(s *session) {
		s.atPrompt()
		pid := s.starts("RUN sh raw")
		guard := s.guard(pid)
		s.kill(parent(pid), syscall.SIGKILL)
		s.prompt()
		s.dead(pid)
		s.dead(guard)
		s.atPrompt()
		s.given()
	}, locked, "bash", "zsh")
}

func givenBack(t *testing.T, ends []end, scene func(*session, end), shells ...string) {
	t.Parallel()
	for _, end := range ends {
		t.Run(end.name, func(t *testing.T) {
			locks(t, func(s *session) { scene(s, end) }, end.run, shells...)
		})
	}
}

// guard waits for the one of the flockd that runs a command.
func (s *session) guard(pid int) (guard int) {
	s.Helper()
	until(s, "a guard", func() bool { guard = guardOf(parent(pid)); return guard != 0 })
	return guard
}

// atPrompt are the modes in which the shell reads a line.
func (s *session) atPrompt() unix.Termios {
	s.Helper()
	if s.shell != "dash" { // which edits no line
		until(s, "a line to edit", func() bool { return s.modes().Lflag&unix.ICANON == 0 })
	}
	return s.modes()
}

// cooked waits until the shell has read a line.
func (s *session) cooked() {
	s.Helper()
	until(s, "a line that was read", func() bool { return s.modes().Lflag&unix.ICANON != 0 })
}

// isRaw wants the terminal in the mode of the script raw.
func (s *session) isRaw() {
	s.Helper()
	if s.modes().Lflag&(unix.ICANON|unix.ISIG|unix.ECHO) != 0 {
		s.Error("the terminal isn't in raw mode")
	}
}
