//go:build linux

package testscripts

import (
	"strings"
	"syscall"
	"testing"
)

const elected = "flockd elect --key k -- "

// Ctrl-C reaches the command as without flockd, and is a wish to end: the command is told so, and
// flockd ends by INT.
func TestElectTerminalKeys(t *testing.T) {
	locks(t, func(s *session) {
		for _, key := range []string{ctrlC, ctrlBackslash} {
			s.starts("RUN sh sleeps")
			s.keys(key)
			s.prompt()
			if got, want := s.status(), map[string]string{ctrlC: "130", ctrlBackslash: "131"}[key]; got != want {
				t.Errorf("%q: status %s, want %s", key, got, want)
			}
			if s.shell == none {
				break
			}
		}
		s.given()
	}, elected, "bash", "zsh", none)
}

// A command that goes on after Ctrl-C gets TERM, and the second Ctrl-C kills it.
func TestElectTerminalTwice(t *testing.T) {
	locks(t, func(s *session) {
		s.starts("RUN sh traps")
		s.keys(ctrlC)
		s.got("INT", 1)
		s.got("TERM", 1)
		s.keys(ctrlC)
		s.prompt()
		if got := s.status(); got != "130" {
			t.Errorf("status %s", got)
		}
		s.given()
	}, elected, "bash")
}

// A leader that was stopped keeps its lease, and goes on; so does one in the background.
func TestElectTerminalSuspend(t *testing.T) {
	locks(t, func(s *session) {
		pid := s.starts("RUN sh sleeps")
		for range 2 {
			s.suspend(pid)
			s.tries(t, 75)
			s.resume(pid)
		}
		s.suspend(pid)
		s.background(pid)
		s.tries(t, 75)
		s.resume(pid)
		s.keys(ctrlC)
		s.prompt()
		if got := s.status(); got != "130" {
			t.Errorf("status %s", got)
		}
		s.given()
	}, elected, "bash", "zsh")
}

// tries wants a status of another flockd that asks for the key.
func (s *session) tries(t *testing.T, status int) {
	t.Helper()
	s.start("run", "-b", s.direct, "-k", "k", "true").ends(status)
}

// A candidate whose terminal is gone ends, as a leader and in line.
func TestElectTerminalHangUp(t *testing.T) {
	locks(t, func(s *session) {
		pid := s.starts("RUN sh sleeps")
		flockd := parent(pid)
		s.hangUp()
		s.dead(pid)
		s.dead(flockd)
		s.given()
	}, elected, "bash", "zsh", none)
}

func TestElectTerminalInLine(t *testing.T) {
	locks(t, func(s *session) {
		holder := s.rig.run(s.direct, "k", "-c", "echo x >held; exec sleep 1000")
		s.await("held")
		s.enter("RUN sh sleeps")
		s.sees("campaigning for k: led by")
		s.keys(ctrlC)
		s.prompt()
		if got := s.status(); got != "130" || s.exists("pid") {
			t.Errorf("status %s", got)
		}
		must(t, holder.cmd.Process.Signal(syscall.SIGTERM))
		holder.ends(143)
		s.given()
	}, elected, "bash", none)
}

// In a script the next line isn't reached after Ctrl-C.
func TestElectTerminalInAScript(t *testing.T) {
	locks(t, func(s *session) {
		s.script("steps", "RUN sh sleeps\necho next >>next\n")
		s.starts("bash ./steps")
		s.keys(ctrlC)
		s.prompt()
		if got := s.text("next"); strings.TrimSpace(got) != "" {
			t.Errorf("the script went on: %q", got)
		}
		s.given()
	}, elected, "bash")
}
