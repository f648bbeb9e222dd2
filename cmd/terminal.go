package cmd

import (
	"os"

	"golang.org/x/sys/unix"

	"flockd/runner/tty"
)

// screen is a terminal on which a line can be drawn over.
type screen struct{ fd int }

// screenOf is nil where f is no such terminal.
func screenOf(f *os.File, term string) *screen {
	if f == nil || term == "" || term == "dumb" {
		return nil
	}
	s := &screen{int(f.Fd())}
	if _, err := unix.IoctlGetWinsize(s.fd, unix.TIOCGWINSZ); err != nil {
		return nil
	}
	return s
}

// ours reports whether we are in the foreground. Elsewhere a shell's prompt may be on
// the row.
func (s *screen) ours() bool {
	return tty.InForeground(s.fd)
}

// columns is how wide it is now.
func (s *screen) columns() int {
	const usual = 80
	size, err := unix.IoctlGetWinsize(s.fd, unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return usual // a serial line doesn't know
	}
	return int(size.Col)
}

// columnsOf is how many columns text takes at most.
func columnsOf(text string) (n int) {
	for _, r := range text {
		n += widthOf(r)
	}
	return n
}

// widthOf is one or two. No terminal has a wide character below Hangul, but where the
// ambiguous ones are set to be wide; above it every one counts as wide, and a combining one
// counts everywhere, so that an unknown one never makes a row too long.
func widthOf(r rune) int {
	if r < 0x1100 {
		return 1
	}
	return 2
}

// cut is text in so many columns.
func cut(text string, columns int) string {
	const mark = "..."
	if columnsOf(text) <= columns {
		return text
	}
	room, end := columns-len(mark), 0
	for i, r := range text {
		if room -= widthOf(r); room < 0 {
			break
		}
		end = i + len(string(r))
	}
	return text[:end] + mark[:max(0, min(columns, len(mark)))]
}
