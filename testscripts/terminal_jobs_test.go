//go:build linux

package testscripts

import (
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// suspend types Ctrl-Z, after which the shell asks for a line.
func (s *session) suspend(pid int) {
	s.Helper()
	s.keys(ctrlZ)
	s.prompt()
	s.stopped(pid)
}

// resume enters fg or the like, and waits until the command is in the foreground.
func (s *session) resume(pid int) {
	s.Helper()
	s.enter("fg")
	s.inFront(pid)
}

// jobs is what the shell says of its only job.
func (s *session) jobs() string {
	s.Helper()
	s.enter("jobs")
	said := s.sees(`\[1\][ +-]+(\w+)`)
	s.prompt()
	return said
}

// Ctrl-Z stops a command and the shell goes on; fg lets it go on, over and over.
func TestTerminalSuspend(t *testing.T) {
	everyShell(t, func(s *session) {
		pid := s.starts("RUN sh waits")
		for range 2 {
			s.suspend(pid)
			s.note("status %s, jobs: %s", s.status(), s.jobs())
			s.resume(pid)
		}
		s.letGo()
		s.prompt()
		s.note("status %s", s.status())
		s.given()
	})
}

// A command that was stopped goes on in the background, and comes back.
func TestTerminalBackground(t *testing.T) {
	everyShell(t, func(s *session) {
		pid := s.starts("RUN sh waits")
		s.suspend(pid)
		s.enter("bg")
		s.prompt()
		s.runs(pid)
		s.note("jobs: %s", s.jobs())
		s.resume(pid)
		s.suspend(pid)
		s.note("jobs: %s", s.jobs())
		s.enter("bg")
		s.prompt()
		s.runs(pid)
		s.enter("wait %1")
		s.letGo()
		s.prompt()
		s.note("status %s", s.status())
		s.given()
	})
}

// A command that was stopped while it read goes on reading, and hears Ctrl-C.
func TestTerminalSuspendAtARead(t *testing.T) {
	everyShell(t, func(s *session) {
		pid := s.starts("RUN sh reads")
		s.suspend(pid)
		s.resume(pid)
		s.keys("a line\r")
		s.prompt()
		s.note("status %s, line %q", s.status(), s.text("line"))
		pid = s.starts("RUN sh sleeps")
		s.suspend(pid)
		s.resume(pid)
		s.keys(ctrlC)
		s.prompt()
		s.note("status %s", s.status())
	})
}

// In a pipeline and in a script, too, Ctrl-Z stops all.
func TestTerminalSuspendWithOthers(t *testing.T) {
	everyShell(t, func(s *session) {
		s.script("steps", "RUN sh waits\necho $? >next\n")
		for _, line := range []string{s.shell + " ./steps", "RUN sh waits | cat", "echo | RUN sh waits"} {
			pid := s.starts(line)
			s.suspend(pid)
			s.note("%s: status %s, jobs: %s", line, s.status(), s.jobs())
			s.resume(pid)
			s.letGo()
			s.prompt()
			s.note("status %s", s.status())
		}
		s.note("next: %s", s.text("next"))
	})
}

// A command in the background that reads is stopped, and reads once it is in front.
func TestTerminalReadInTheBackground(t *testing.T) {
	everyShell(t, func(s *session) {
		pid := s.starts("RUN sh reads &")
		s.prompt()
		s.stopped(pid)
		s.note("jobs: %s", s.jobs())
		s.resume(pid)
		s.keys("a line\r")
		s.prompt()
		s.note("status %s, line %q", s.status(), s.text("line"))
		s.given()
	})
}

// After stty tostop a command in the background is stopped when it writes.
func TestTerminalWriteInTheBackground(t *testing.T) {
	everyShell(t, func(s *session) {
		s.script("writes", "echo $$ >pid; echo hel''lo; echo done >done; exit 3\n")
		s.enter("stty tostop")
		s.prompt()
		pid := s.starts("RUN sh writes &")
		s.prompt()
		s.stopped(pid)
		s.note("jobs: %s, done %q", s.jobs(), s.text("done"))
		s.enter("fg")
		s.sees("hello")
		s.prompt()
		s.note("status %s, done %q", s.status(), s.text("done"))
		s.given()
	})
}

// A stopped job dies of the shell's kill, and gives its key back.
func TestTerminalKillAStoppedJob(t *testing.T) {
	as(t, func(s *session) {
		pid := s.starts("RUN sh sleeps")
		s.suspend(pid)
		s.enter("kill %1")
		s.prompt()
		s.dead(pid)
		s.enter("wait %1")
		s.prompt()
		s.given()
	}, "bash", "zsh") // dash leaves it stopped
}

// Somebody else's signals stop a command and let it go on, as the terminal's do.
func TestTerminalStoppedByOthers(t *testing.T) {
	everyShell(t, func(s *session) {
		pid := s.starts("RUN sh waits")
		for _, sig := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGSTOP, syscall.SIGTTIN} {
			s.kill(pid, sig)
			s.prompt()
			s.stopped(pid)
			s.note("%v: status %s, jobs: %s", sig, s.status(), s.jobs())
			s.resume(pid)
		}
		s.letGo()
		s.prompt()
		s.note("status %s", s.status())
	})
}

// A shell under a lock controls jobs of its own.
func TestTerminalShellInside(t *testing.T) {
	everyShell(t, func(s *session) {
		inner := regexp.QuoteMeta("inner> ")
		s.enter("PS1='inner> ' RUN bash --norc -i")
		s.sees(inner)
		s.starts("sh waits")
		s.keys(ctrlZ)
		s.sees(inner)
		s.enter("fg")
		s.inFront(int(s.number("pid")))
		s.letGo()
		s.sees(inner)
		s.starts("sh sleeps")
		s.keys(ctrlC)
		s.sees(inner)
		s.enter(`echo "<$?>"`)
		s.note("status %s", s.sees(`[\r\n]<(\d+)>`))
		s.enter("exit 7")
		s.prompt()
		s.note("status %s", s.status())
	})
}

// A stopped command keeps its lease for as long as it likes.
func TestTerminalStoppedKeepsTheLease(t *testing.T) {
	const ttl = 6 * time.Second
	locks(t, func(s *session) {
		pid := s.starts("flockd run --key k --ttl " + ttl.String() + " -- sh waits")
		s.suspend(pid)
		began := s.holdsUntil()
		until(s, "renewed", func() bool { return s.holdsUntil() > began+int64(3*ttl) })
		s.rig.run(s.direct, "k", "--", "true").ends(75)
		s.stopped(pid)
		s.resume(pid)
		s.letGo()
		s.prompt()
		if status := s.status(); status != "5" {
			s.Errorf("status %s", status)
		}
		s.given()
	}, "bash", "dash", "zsh")
}

// A stopped command whose lease is lost is killed, and flockd says so once it goes on.
func TestTerminalStoppedLosesTheLease(t *testing.T) {
	locks(t, func(s *session) {
		pid := s.starts("flockd run --key k --ttl 2s --result-file " + filepath.Join(s.dir, "result") + " -- sh waits")
		s.suspend(pid)
		s.lose()
		s.dead(pid)
		s.given()
		s.enter("fg")
		s.prompt()
		if status := s.status(); status != "79" {
			s.Errorf("status %s", status)
		}
	}, "bash", "dash", "zsh")
}
