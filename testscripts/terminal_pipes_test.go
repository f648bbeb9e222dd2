//go:build linux

package testscripts

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const counted = "sh -c 'seq 100; echo $$ >pid; exec sleep 1000'"

// Where a command was killed, a pager that reads from it goes on with the keys, and the
// shell has the terminal as before.
func TestTerminalLeftToAPager(t *testing.T) {
	givenBack(t, ends[:3], func(s *session, end end) {
		before := s.atPrompt()
		pid := s.starts("RUN " + counted + " | (until [ -s pid ]; do :; done; exec less)")
		flockd, guard := parent(pid), s.guard(pid)
		s.sees("23\r*\n")
		s.pages()
		end.do(s, pid)
		s.dead(pid)
		s.dead(flockd)
		s.dead(guard)
		s.pages()
		s.keys(" ")
		s.sees("46\r*\n")
		s.keys("q")
		s.prompt()
		until(s, "the modes of before", func() bool { return s.modes() == before })
		s.given()
	}, "bash", "dash")
}

// A pager that was there before the command, and has ended before it, leaves none of its
// modes.
func TestTerminalGivenBackAfterAPager(t *testing.T) {
	for _, end := range []end{ends[0], ends[2]} {
		t.Run(end.name, func(t *testing.T) {
			locks(t, func(s *session) {
				before := s.local()
				release := s.held()
				s.enter("RUN " + counted + " | less")
				until(s, "a pager's modes", func() bool { return s.modes().Lflag&(unix.ICANON|unix.ECHO) == 0 })
				release()
				pid := s.started()
				s.guard(pid)
				s.sees("23\r*\n")
				s.keys("q")
				until(s, "no pager's modes", func() bool { return s.modes().Lflag&(unix.ICANON|unix.ECHO) != 0 })
				end.do(s, pid)
				s.dead(pid)
				s.prompt()
				if after := s.local(); after != before {
					s.Errorf("local modes %s, not %s", after, before)
				}
				s.given()
			}, "flockd run --key k --ttl 12s --wait 1m -- ", "bash", "dash")
		})
	}
}

// local are the terminal's local modes while the shell runs a command: echo and the like.
func (s *session) local() string {
	s.Helper()
	return strings.Split(s.shows("$(stty -g)"), ":")[3]
}

// pages wants the terminal in the modes of a pager.
func (s *session) pages() {
	s.Helper()
	if s.modes().Lflag&(unix.ICANON|unix.ECHO) != 0 {
		s.Error("the pager's modes are gone")
	}
}

// A stopped command that somebody looks at with a debugger doesn't go on, and nor does
// flockd.
func TestTerminalStoppedAndTraced(t *testing.T) {
	locks(t, func(s *session) {
		pid := s.starts("RUN sh waits")
		flockd := parent(pid)
		s.suspend(pid)
		tracer := s.traces(pid)
		for range 2 {
			began := s.holdsUntil()
			until(s, "renewed", func() bool {
				if state(flockd) != 'T' {
					s.Fatal("flockd goes on")
				}
				return s.holdsUntil() > began
			})
		}
		s.kill(tracer.cmd.Process.Pid, syscall.SIGTERM)
		tracer.status()
		s.stopped(pid)
		s.resume(pid)
		s.letGo()
		s.prompt()
		if status := s.status(); status != "5" {
			s.Errorf("status %s", status)
		}
		s.given()
	}, "flockd run --key k --ttl 12s -- ", "bash")
}
