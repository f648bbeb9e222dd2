//go:build linux

package testscripts

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// rows is what a terminal shows of all that was printed, as long as no row is too long
// for it.
func rows(printed string) (rows []string) {
	var row []rune
	at := 0
	for text := printed; text != ""; {
		if rest, ok := strings.CutPrefix(text, "\x1b[K"); ok {
			row, text = row[:min(at, len(row))], rest
			continue
		}
		r := []rune(text)[0]
		text = text[len(string(r)):]
		switch r {
		case '\r':
			at = 0
		case '\n':
			rows, row, at = append(rows, strings.TrimRight(string(row), " ")), nil, 0
		default:
			row = append(row[:at], append([]rune{r}, row[min(at+1, len(row)):]...)...)
			at++
		}
	}
	return append(rows, string(row))
}

// showsRow waits for a last row of the terminal, and returns what its groups match.
func (s *session) showsRow(pattern string) (groups []string) {
	s.Helper()
	re := regexp.MustCompile(pattern)
	until(s, "in the last row: "+pattern, func() bool {
		all := rows(s.printed())
		groups = re.FindStringSubmatch(all[len(all)-1])
		return groups != nil
	})
	return groups
}

// held takes the key until the returned function is called.
func (s *session) held() (release func()) {
	s.Helper()
	s.tool("mkfifo", filepath.Join(s.dir, "free"))
	holder := s.rig.run(s.direct, "k", "--", "sh", "-c", "echo x >held; read -r _ <free")
	s.await("held")
	return func() {
		s.Helper()
		if err := os.WriteFile(filepath.Join(s.dir, "free"), []byte("\n"), 0o600); err != nil {
			s.Fatal(err)
		}
		holder.ends(0)
	}
}

// waitsFor has the key taken, and enters a line that waits for it with a live line.
func (s *session) waitsFor(line string) (release func()) {
	s.Helper()
	release = s.held()
	s.enter(line)
	s.showsRow(livePat)
	return release
}

const (
	waits   = "flockd run --key k --wait forever -- "
	livePat = `^flockd: waiting (\d+)s(?: for k)?, place (\d) of (\d): held by \S+`
)

// The live line says how things stand, fits in the window, and is gone when the command
// begins.
func TestWaitingOnATerminal(t *testing.T) {
	locks(t, func(s *session) {
		release := s.held()
		first := s.rig.run(s.direct, "k", "--wait", "forever", "--", "true")
		until(s, "waiting", func() bool { return strings.Contains(first.stderr.String(), "waiting for k: held by ") })
		s.enter("RUN echo hel''lo")
		began := s.showsRow(livePat)
		if began[2] != "2" || began[3] != "2" {
			s.Errorf("place %s of %s", began[2], began[3])
		}
		until(s, "it goes on from one second to the next", func() bool { // the store is asked every five
			for n := range int(patience.Seconds()) {
				if strings.Contains(s.printed(), fmt.Sprintf("waiting %ds", n)) && strings.Contains(s.printed(), fmt.Sprintf("waiting %ds", n+1)) {
					return true
				}
			}
			return false
		})
		s.resize(24, 40)
		s.showsRow(`^flockd: waiting .{18}\.\.\.$`)
		s.resize(24, 100)
		first.cmd.Process.Signal(unix.SIGTERM)
		first.ends(128 + int(unix.SIGTERM))
		s.showsRow("place 1 of 1")
		release()
		s.prompt()
		s.clean("hello")
	}, waits, "bash", "dash", "zsh")
}

// clean wants a line of its own, and nothing left of a live line.
func (s *session) clean(line string) {
	s.Helper()
	found := false
	for _, row := range rows(s.printed()) {
		found = found || row == line
		if strings.Contains(row, "flockd: waiting") {
			s.Errorf("left: %q", row)
		}
	}
	if !found {
		s.Errorf("no row %q", line)
	}
}

// Ctrl-C, and a wait that runs out, leave no more than the line that says so.
func TestWaitingThatEndsForNothing(t *testing.T) {
	locks(t, func(s *session) {
		release := s.waitsFor("RUN true")
		s.keys(ctrlC)
		s.prompt()
		s.clean("flockd: stopped waiting for k: signal INT")
		s.enter("flockd run --key k --wait 1100ms -- true")
		skipped := s.sees("(flockd: skipped k: held by [^\r]*; gave up after 1.1s)\r")
		s.prompt()
		s.clean(skipped)
		release()
	}, waits, "bash")
}

// A stopped wait draws nothing on the shell's rows; back in front it draws its line again.
func TestWaitingInTheBackground(t *testing.T) {
	locks(t, func(s *session) {
		release := s.waitsFor("RUN echo hel''lo")
		s.keys(ctrlZ)
		s.prompt()
		s.enter("bg")
		s.prompt()
		before := len(s.printed())
		for range 2 { // which is longer than a second
			kept := s.placeUntil()
			until(s, "asked again", func() bool { return s.placeUntil() > kept })
		}
		s.enter("fg")
		s.showsRow(livePat)
		if text := s.printed()[before:]; strings.Contains(text[:strings.Index(text, "fg")], "waiting") {
			s.Errorf("in the background it wrote %q", text)
		}
		release()
		s.prompt()
	}, waits, "bash", "zsh")
}

// placeUntil is until when the only one who waits for k has its place.
func (s *session) placeUntil() (expires int64) {
	s.Helper()
	s.row(`SELECT expires_mono FROM claims WHERE key = ? AND state = 'waiting'`, "k", &expires)
	return expires
}

// What is started in the background, on a terminal that can do nothing or for a program
// says it in lines.
func TestWaitingInLines(t *testing.T) {
	for name, c := range map[string]struct{ line, want string }{
		"background": {"RUN true &", `(flockd: waiting for k: held by .*; renewed .* ago; place 1 of 1)\r\n`},
		"dumb":       {"TERM=dumb RUN true", `(flockd: waiting for k: held by .*; renewed .* ago; place 1 of 1)\r\n`},
		"json":       {"flockd run --log-format json --key k --wait forever -- true", `("msg":"waiting for k: held by .*","waited":".*"held_by":.*"waiting":0,"ahead":0})\r\n`},
	} {
		t.Run(name, func(t *testing.T) {
			locks(t, func(s *session) {
				release := s.held()
				s.enter(c.line)
				s.sees(c.want)
				release()
				s.enter("wait")
				s.prompt()
				if strings.Contains(s.printed(), "\x1b[K") {
					s.Errorf("a live line: %q", s.printed())
				}
			}, waits, "dash")
		})
	}
}

// A terminal that was stopped with Ctrl-S doesn't hold up the command.
func TestWaitingOnAStoppedTerminal(t *testing.T) {
	locks(t, func(s *session) {
		release := s.waitsFor("RUN touch ran")
		s.holdsOutput()
		release()
		until(s, "the command has run", func() bool { return s.exists("ran") })
		s.keys(ctrlQ)
		s.prompt()
	}, waits, "bash")
}

// Nor does it hold up who stands behind one who leaves: a place is gone at once, and not
// when that can't be said.
func TestWaitingLeavesAStoppedTerminal(t *testing.T) {
	locks(t, func(s *session) {
		release := s.held()
		until(s, "a place that is gone long before the process", s.leavesSilently) // a stall may come between
		release()
	}, waits, "bash")
}

// leavesSilently ends a wait whose terminal is held by Ctrl-S, and compares when its place
// was gone with when it had ended.
func (s *session) leavesSilently() (atOnce bool) {
	s.Helper()
	s.enter("RUN true")
	s.showsRow(livePat)
	flockd := s.inGroup(s.foreground(), "flockd")
	s.holdsOutput()
	began := time.Now()
	s.kill(flockd, unix.SIGTERM)
	until(s, "no place", func() bool { return s.claims("k") == 1 })
	gone := time.Since(began)
	s.dead(flockd)
	ended := time.Since(began)
	s.keys(ctrlQ)
	s.prompt()
	return gone < ended/4
}

// holdsOutput types Ctrl-S, and an empty line after it, by which it is seen to have come.
func (s *session) holdsOutput() {
	s.Helper()
	var number, waiting int
	must(s, control(s.pty, func(fd int) (err error) {
		number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return err
	}))
	tty, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(s, err)
	defer tty.Close()
	s.keys(ctrlS + "\r")
	until(s, "Ctrl-S", func() bool {
		must(s, control(tty, func(fd int) (err error) {
			waiting, err = unix.IoctlGetInt(fd, unix.TIOCINQ)
			return err
		}))
		return waiting > 0
	})
}
