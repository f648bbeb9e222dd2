//go:build linux

package testscripts

import (
	"fmt"
	"testing"
)

// ignoring begins a subshell that ignores what flockd can pass on as ignored.
const ignoring = "(trap '' HUP INT TSTP TTIN TTOU; RUN sh deaf)"

// deafScript writes down what is ignored of that, and reads a line.
const deafScript = `
ignored=$(sed -n 's/^SigIgn:.*\(........\)$/\1/p' /proc/$$/status)
echo $((0x$ignored & 0x380003)) >ignored
echo $$ >pid
read -r line
echo "<$line>" >line
exit 6
`

// What a command was to ignore at a terminal, it ignores, and no key stops it or ends it.
func TestTerminalIgnored(t *testing.T) {
	as(t, func(s *session) {
		s.script("deaf", deafScript)
		s.starts(ignoring)
		s.keys(ctrlZ + ctrlC + "a line\r")
		s.prompt()
		s.note("status %s, line %q, ignored %s", s.status(), s.text("line"), s.text("ignored"))
		if got, want := s.text("ignored"), fmt.Sprintln(0x380003); got != want {
			s.Errorf("ignored is %s, not %s", got, want)
		}
		s.given()
	}, "bash", "dash") // zsh lets no subshell ignore what stops it
}

// In the background it isn't stopped either: it can't read.
func TestTerminalIgnoredInTheBackground(t *testing.T) {
	as(t, func(s *session) {
		s.script("deaf", deafScript)
		s.enter(ignoring + " &")
		s.await("line")
		s.note("line %q, ignored %s", s.text("line"), s.text("ignored"))
		s.given()
	}, "bash", "dash")
}

// After stty tostop flockd isn't stopped by what it says itself.
func TestTerminalSaysInTheBackground(t *testing.T) {
	const verbose = "flockd run -v --key k --wait forever -- "
	locks(t, func(s *session) {
		s.enter("stty tostop")
		s.prompt()
		release := s.held()
		s.enter("RUN sh waits &")
		s.prompt()
		until(s, "a line of two", func() bool { return s.claims("k") == 2 })
		release()
		s.await("pid")
		s.letGo()
		s.enter("wait $!")
		s.prompt()
		if status := s.status(); status != "5" {
			s.Errorf("status %s", status)
		}
		s.given()
	}, verbose, "bash", "dash", "zsh")
}
