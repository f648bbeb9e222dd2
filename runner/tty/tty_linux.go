package tty

import (
	"golang.org/x/sys/unix"

	"flockd/runner/tree"
)

const (
	getModes = unix.TCGETS
	setModes = unix.TCSETS
)

func foregroundOf(session int) (group int, ok bool) { return tree.Foreground(session) }

// alive reports whether somebody may be left of a group. One whose leader is a zombie is
// taken for dead: an orphan may be reaped late.
func alive(group int) bool { return unix.Kill(-group, 0) != unix.ESRCH && !tree.Zombie(group) }
