package tty

import (
	"strings"

	"golang.org/x/sys/unix"

	"flockd/runner/tree"
)

const (
	getModes = unix.TCGETS
	setModes = unix.TCSETS
)

func foregroundOf(session int) (group int, ok bool) { return tree.Foreground(session) }

// kin are this process and its ancestors in a group.
func kin(group int) []int32 { return tree.Lineage(group) }

// living are the processes of a group that aren't dead.
func living(group int) []int { return tree.Group(group) }

// hasTerminal reports whether a process has opened a terminal beside its streams.
func hasTerminal(pid int) bool {
	const streams = 3
	return tree.Opened(pid, func(fd int, path string) bool {
		return fd >= streams && (path == "/dev/tty" || strings.HasPrefix(path, "/dev/pts/"))
	})
}

// alive reports whether somebody may be left of a group. One whose leader is a zombie is
// taken for dead: an orphan may be reaped late.
func alive(group int) bool { return unix.Kill(-group, 0) != unix.ESRCH && !tree.Zombie(group) }
