//go:build linux

package testscripts

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// suspend types Ctrl-Z, after which the shell asks for a line.
func (s *session) suspend(pid int) {
	s.Helper()
	s.keys(ctrlZ)
	s.prompt()
	s.stopped(pid)
}

// background lets a command that is stopped go on in the background.
func (s *session) background(pid int) {
	s.Helper()
	s.enter("bg")
	s.prompt()
	s.runs(pid)
}

// suspends types Ctrl-Z, and notes what comes of it.
func (s *session) suspends(pid int) {
	s.Helper()
	s.suspend(pid)
	s.note("status %s, jobs: %s", s.status(), s.jobs())
}

// finishes lets the script waits go, and notes its status.
func (s *session) finishes() {
	s.Helper()
	s.letGo()
	s.prompt()
	s.note("status %s", s.status())
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

// knows waits until the shell has seen its only job stop, and returns what it says.
func (s *session) knows() (said string) {
	s.Helper()
	until(s, "a stopped job", func() bool { said = s.jobs(); return said != "running" && said != "Running" })
	return said
}

// joined waits until a pipeline is complete: the shell starts one after the other.
func (s *session) joined(pid int, name string) {
	s.Helper()
	group, err := unix.Getpgid(pid)
	must(s, err)
	s.inGroup(group, name)
}

// inGroup waits for a process of a group with such a name.
func (s *session) inGroup(group int, name string) (pid int) {
	s.Helper()
	until(s, name, func() bool {
		found := processes(func(pid int) bool {
			of, err := unix.Getpgid(pid)
			return err == nil && of == group && strings.HasPrefix(argv(pid), name+" ")
		})
		if len(found) > 0 {
			pid = found[0]
		}
		return len(found) > 0
	})
	return pid
}

// Ctrl-Z stops a command and the shell goes on; fg lets it go on, over and over.
func TestTerminalSuspend(t *testing.T) {
	everyShell(t, func(s *session) {
		pid := s.starts("RUN sh waits")
		for range 2 {
			s.suspends(pid)
			s.resume(pid)
		}
		s.finishes()
		s.given()
	})
}

// A command that was stopped goes on in the background, and comes back.
func TestTerminalBackground(t *testing.T) {
	everyShell(t, func(s *session) {
		pid := s.starts("RUN sh waits")
		s.suspends(pid)
		s.background(pid)
		s.note("jobs: %s", s.jobs())
		s.resume(pid)
		s.suspends(pid)
		s.background(pid)
		s.atPrompt()
		s.enter("wait %1")
		s.cooked()
		s.finishes()
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
		for _, c := range []struct{ line, other string }{
			{"sh ./steps", "sh"}, // a script of zsh may miss the end of a command that was stopped
			{"RUN sh waits | cat", "cat"},
			{"yes | RUN sh waits", "yes"},
		} {
			pid := s.starts(c.line)
			s.joined(pid, c.other)
			s.note("%s", c.line)
			s.suspends(pid)
			s.resume(pid)
			s.finishes()
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
		s.note("jobs: %s", s.knows())
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
		s.note("jobs: %s, done %q", s.knows(), s.text("done"))
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
		s.finishes()
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
	locks(t, func(s *session) {
		pid := s.starts("RUN sh waits")
		s.suspend(pid)
		for range 3 { // the first may have been flockd's own
			began := s.holdsUntil()
			until(s, "renewed", func() bool { return s.holdsUntil() > began })
		}
		s.rig.run(s.direct, "k", "--", "true").ends(75)
		s.stopped(pid)
		s.resume(pid)
		s.letGo()
		s.prompt()
		if status := s.status(); status != "5" {
			s.Errorf("status %s", status)
		}
		s.given()
	}, "flockd run --key k --ttl 20s -- ", "bash", "dash", "zsh")
}

// A stopped command whose lease is lost is killed soon, and flockd goes on to say so.
func TestTerminalStoppedLosesTheLease(t *testing.T) {
	locks(t, func(s *session) {
		pid := s.starts("RUN sh waits")
		flockd := parent(pid)
		s.suspend(pid)
		end := s.holdsUntil()
		s.lose()
		s.dead(pid)
		if late := monotonic() - end; late > 0 {
			s.Errorf("nobody has looked whether the lease lasts: dead %v after its end", time.Duration(late))
		}
		s.sees("lost the lock on k")
		s.dead(flockd)
		if result := s.text("result"); !strings.Contains(result, `"class":"lost"`) {
			s.Error(result)
		}
		s.given()
	}, "flockd run --key k --ttl 20s --result-file result -- ", "bash", "dash", "zsh")
}
