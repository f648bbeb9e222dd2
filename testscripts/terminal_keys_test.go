//go:build linux

package testscripts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	ctrlC         = "\x03"
	ctrlBackslash = "\x1c"
	ctrlQ         = "\x11"
	ctrlS         = "\x13"
	ctrlZ         = "\x1a"
)

// Each Ctrl-C and Ctrl-\ reaches the command once, and it goes on if it likes.
func TestTerminalKeysComeOnce(t *testing.T) {
	as(t, func(s *session) {
		s.starts("RUN sh traps")
		s.keys(ctrlC)
		s.got("INT", 1)
		s.keys(ctrlC)
		s.got("INT", 2)
		s.keys(ctrlBackslash)
		s.got("QUIT", 1)
		s.keys("enough\r")
		s.prompt()
		s.note("%q, line %q, status %s", strings.Fields(s.text("signals")), s.text("line"), s.status())
	}, "bash", "dash", "zsh", none)
}

// Who dies of Ctrl-C or Ctrl-\ has the status of that.
func TestTerminalKeysKill(t *testing.T) {
	as(t, func(s *session) {
		if s.shell != none {
			s.enter("ulimit -c 0")
			s.prompt()
		}
		for _, key := range []string{ctrlC, ctrlBackslash} {
			s.starts("RUN sh sleeps")
			s.keys(key)
			s.prompt()
			s.note("%q: status %s", key, s.status())
			if s.shell == none {
				break
			}
		}
		s.given()
	}, "bash", "dash", "zsh", none)
}

// Ctrl-C ends a script, and so does Ctrl-\, as far as the shell lets it.
func TestTerminalKeysInAScript(t *testing.T) {
	everyShell(t, func(s *session) {
		s.script("steps", "ulimit -c 0\nRUN sh sleeps\necho next >>next\n")
		s.script("caught", "RUN sh -c 'trap \"exit 3\" INT; . ./waits'\necho $? >next\n")
		for _, step := range []struct{ key, script string }{{ctrlC, "steps"}, {ctrlBackslash, "steps"}, {ctrlC, "caught"}} {
			os.Remove(filepath.Join(s.dir, "next"))
			s.starts(s.shell + " ./" + step.script)
			s.keys(step.key)
			s.prompt()
			s.note("%s, %q: status %s, next %q", step.script, step.key, s.status(), s.text("next"))
		}
	})
}

// Ctrl-C ends a loop that is typed, and one in a script.
func TestTerminalInterruptEndsALoop(t *testing.T) {
	everyShell(t, func(s *session) {
		const loop = "while :; do RUN sh sleeps; done"
		s.script("loop", loop+"\n")
		for _, line := range []string{loop, "for i in 1 2 3; do RUN sh sleeps; done", s.shell + " ./loop"} {
			s.starts(line)
			s.keys(ctrlC)
			s.prompt()
			s.note("status %s", s.status())
		}
	})
}

// A command in raw mode reads each key.
func TestTerminalRaw(t *testing.T) {
	as(t, func(s *session) {
		s.script("keys", `
old=$(stty -g); stty raw -echo; echo $$ >pid
dd bs=1 count=3 2>/dev/null | od -An -c >keys
stty "$old"
`)
		before := ""
		if s.shell != none {
			before = s.shows("$(stty -g)")
		}
		s.starts("RUN sh keys")
		s.keys(ctrlC + ctrlZ + ctrlBackslash)
		s.prompt()
		s.note("status %s, keys %q", s.status(), s.text("keys"))
		if s.shell != none {
			s.note("modes as before: %v", before == s.shows("$(stty -g)"))
		}
	}, "bash", "dash", "zsh", none)
}

// A command reads the terminal as its stdin, in the shell and in $(…), and for a
// password where stdin is a pipe.
func TestTerminalRead(t *testing.T) {
	as(t, func(s *session) {
		s.starts("RUN sh reads")
		s.keys("a line\r")
		s.prompt()
		s.note("status %s, line %q", s.status(), s.text("line"))
		if s.shell == none {
			return
		}
		s.starts("x=$(RUN sh -c 'sh ./reads; cat line')")
		s.keys("another\r")
		s.prompt()
		s.note("status %s, line %q, %s", s.status(), s.text("line"), s.shows("$x"))
		s.script("password", `
read -r data
stty -echo </dev/tty
printf 'pass''word: ' >/dev/tty; echo $$ >pid
read -r word </dev/tty
stty echo </dev/tty
echo "$data $word" >line
`)
		s.starts("echo data | RUN sh password")
		s.sees("password: ")
		s.keys("secret\r")
		s.prompt()
		s.note("status %s, line %q, shown %v", s.status(), s.text("line"), strings.Contains(s.printed(), "secret"))
	}, "bash", "dash", "zsh", none)
}

// A command sees itself in the foreground.
func TestTerminalForeground(t *testing.T) {
	as(t, func(s *session) {
		s.script("where", "set -- $(cat /proc/$$/stat); [ $5 = $8 ] && echo in front >where\n")
		s.enter("RUN sh where")
		s.prompt()
		s.note("status %s, %q", s.status(), s.text("where"))
	}, "bash", "dash", "zsh", none)
}

// A command hears of each new size of the window once.
func TestTerminalWindow(t *testing.T) {
	as(t, func(s *session) {
		s.starts("RUN sh traps")
		s.resize(33, 77)
		s.got("WINCH", 1)
		s.resize(22, 66)
		s.got("WINCH", 2)
		s.keys("enough\r")
		s.prompt()
		s.note("%q, sizes %q", strings.Fields(s.text("signals")), s.text("sizes"))
	}, "bash", "dash", "zsh", none)
}
