//go:build linux

package testscripts

import (
	"strings"
	"testing"
)

// A break asks back at a terminal, where only a yes is one.
func TestBreakAsksBack(t *testing.T) {
	locks(t, func(s *session) {
		release := s.held()
		for _, no := range []string{"", "n", "yesterday"} {
			s.enter("flockd break k --reason stuck")
			s.sees(`(flockd: k is held by [^\r]*)\r`)
			s.sees(`(flockd: ask to stop\? \[y/N\] )`)
			s.keys(no + "\r")
			s.sees(`(flockd: nothing was done)\r`)
			if status := s.status(); status != "1" {
				s.Errorf("%q: status %s", no, status)
			}
		}
		release()
		s.enter("flockd run --key k --ttl 3s -- sh -c 'echo x >running; sleep 1000' &")
		s.await("running")
		s.enter("flockd break k --reason stuck --wait 30s")
		s.sees(`(\[y/N\] )`)
		s.keys("y\r")
		s.sees(`(flockd: asked [^\r]* to stop)`)
		s.sees(`(flockd: whoever was asked is gone)\r`)
	}, "", "bash")
}

// A watch on a terminal is drawn in place, fits into it, and leaves the prompt below.
func TestWatchOnATerminal(t *testing.T) {
	locks(t, func(s *session) {
		release := s.held()
		s.enter("flockd status k --watch")
		s.sees(`\x1b\[H(key  +k)\x1b\[K`)
		s.sees(`state  +(held)\x1b\[K`)
		s.resize(6, 30)
		s.sees(`(\.\.\. \d+ more lines)\x1b\[K`)
		for row := range strings.SplitSeq(s.printed()[strings.LastIndex(s.printed(), "\x1b[H"):], "\n") {
			if row = escapes.ReplaceAllString(row, ""); len(row) >= 30 {
				s.Errorf("too long: %q", row)
			}
		}
		release()
		s.sees(`state  +(free)\x1b\[K`)
		s.keys(ctrlC)
		s.prompt()
		if status := s.status(); status != "130" {
			s.Errorf("status %s", status)
		}
	}, "", "bash")
}
