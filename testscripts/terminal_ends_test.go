//go:build linux

package testscripts

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A command whose terminal is gone hears of it, and its key is given back.
func TestTerminalHangUp(t *testing.T) {
	as(t, func(s *session) {
		s.script("hears", "trap 'echo HUP >signals; exit 1' HUP; echo $$ >pid; until read -r _ <go; do :; done\n")
		pid := s.starts("RUN sh hears")
		s.hangUp()
		s.dead(pid)
		s.note("%q", s.text("signals"))
		s.dead(s.leader.cmd.Process.Pid)
		s.given()
	}, "bash", "dash", "zsh", none)
}

// So it is in the background, and where it is stopped.
func TestTerminalHangUpOfJobs(t *testing.T) {
	as(t, func(s *session) {
		pid := s.starts("RUN sh sleeps &")
		s.prompt()
		s.hangUp()
		s.dead(pid)
		s.dead(s.leader.cmd.Process.Pid)
		s.given()
	}, "bash", "zsh") // dash doesn't tell them
}

func TestTerminalHangUpOfStopped(t *testing.T) {
	everyShell(t, func(s *session) {
		pid := s.starts("RUN sh sleeps")
		s.suspend(pid)
		s.hangUp()
		s.dead(pid)
		s.dead(s.leader.cmd.Process.Pid)
		s.given()
	})
}

// Without a shell nobody could let a command go on: Ctrl-Z stops neither it nor flockd.
func TestTerminalSuspendWithoutAShell(t *testing.T) {
	as(t, func(s *session) {
		s.starts("RUN sh traps")
		s.keys(ctrlZ)
		s.keys("a line\r")
		s.prompt()
		s.note("status %s, line %q", s.status(), s.text("line"))
		s.given()
	}, none)
}

// Killed in a script, flockd and its command leave a terminal that the script reads.
func TestTerminalReadAfterAKill(t *testing.T) {
	everyShell(t, func(s *session) {
		s.script("steps", "RUN sh sleeps\nread -r line; echo \"$line\" >line\n")
		pid := s.starts(s.shell + " ./steps")
		s.kill(s.flockd(pid), syscall.SIGKILL)
		s.dead(pid)
		s.keys("a line\r")
		s.prompt()
		s.note("status %s, line %q", s.status(), s.text("line"))
		s.given()
	})
}

// TERM, HUP, USR1 and USR2 that come to flockd alone reach the command once. INT and
// QUIT count as the terminal's, which has sent them to the command too.
func TestTerminalSignalsToFlockd(t *testing.T) {
	as(t, func(s *session) {
		flockd := s.flockd(s.starts("RUN sh traps"))
		want := []string{"TERM", "HUP", "USR1", "USR2"}
		for _, sig := range want {
			s.kill(flockd, unix.SignalNum("SIG"+sig))
			s.got(sig, 1)
		}
		s.keys("enough\r")
		s.prompt()
		s.note("%q, line %q, status %s", strings.Fields(s.text("signals")), s.text("line"), s.status())
		s.kill(s.flockd(s.starts("RUN sh sleeps")), syscall.SIGTERM)
		s.prompt()
		s.note("status %s", s.status())
	}, "bash", "dash", "zsh")
}

func TestTerminalInterruptsToFlockd(t *testing.T) {
	locks(t, func(s *session) {
		pid := s.starts("RUN sh traps")
		flockd := parent(pid)
		s.kill(flockd, syscall.SIGINT)
		s.kill(flockd, syscall.SIGQUIT)
		s.kill(flockd, syscall.SIGTERM)
		s.got("TERM", 1)
		s.keys("enough\r")
		s.prompt()
		if got := strings.Fields(s.text("signals")); !slices.Equal(got, []string{"TERM"}) || s.status() != "4" {
			s.Errorf("%q", got)
		}
	}, locked, "bash")
}

// In the background INT isn't the terminal's, and is passed on.
func TestTerminalInterruptsInTheBackground(t *testing.T) {
	as(t, func(s *session) {
		s.script("hears", "trap 'echo INT >signals; exit 1' INT; echo $$ >pid; until read -r _ <go; do :; done\n")
		pid := s.starts("RUN sh hears &")
		s.prompt()
		s.kill(s.flockd(pid), syscall.SIGINT)
		s.dead(pid)
		s.note("%q", s.text("signals"))
		s.given()
	}, "bash", "zsh")
}
