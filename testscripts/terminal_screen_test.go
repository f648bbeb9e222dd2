//go:build linux

package testscripts

import (
	"fmt"
	"regexp"
	"strings"
)

// watch keeps what is printed, until the terminal is gone.
func (s *session) watch() {
	buf := make([]byte, 4096)
	for {
		n, err := s.pty.Read(buf)
		s.mu.Lock()
		s.screen = append(s.screen, buf[:n]...)
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *session) printed() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.screen)
}

// keys types.
func (s *session) keys(text string) {
	s.Helper()
	if _, err := s.pty.WriteString(text); err != nil {
		s.Fatal(err)
	}
}

// enter types a line at the shell, or starts the session with it.
func (s *session) enter(line string) {
	s.Helper()
	line = s.said(line)
	if s.shell == none {
		s.begin(strings.Fields(line))
		return
	}
	s.keys(line + "\r")
}

func (s *session) said(text string) string { return strings.ReplaceAll(text, "RUN ", s.run) }

// sees waits for what is printed next, and returns what a group in it matched.
func (s *session) sees(pattern string) (group string) {
	s.Helper()
	re := regexp.MustCompile(pattern)
	until(s, "on the screen: "+pattern, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		m := re.FindSubmatchIndex(s.screen[s.seen:])
		if m == nil {
			return false
		}
		if len(m) > 2 {
			group = string(s.screen[s.seen+m[2] : s.seen+m[3]])
		}
		s.seen += m[1]
		return true
	})
	return group
}

// prompt waits until the shell asks for a line, or what leads the session has ended.
func (s *session) prompt() {
	s.Helper()
	if s.shell != none {
		s.sees(prompt)
		return
	}
	until(s, "the session's end", func() bool { return over(state(s.leader.cmd.Process.Pid)) })
}

// status is that of the line before.
func (s *session) status() string {
	s.Helper()
	if s.shell == none {
		err := <-s.leader.done
		s.leader.done <- err
		code, _ := exitStatus(err)
		return fmt.Sprint(code)
	}
	return s.shows("$?")
}

// shows is what the shell makes of a word.
func (s *session) shows(word string) string {
	s.Helper()
	s.enter(`echo "<` + word + `>"`)
	value := s.sees(`[\r\n]<([^<>$]*)>`)
	s.prompt()
	return value
}
