//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package tty

import "golang.org/x/sys/unix"

const (
	getModes = unix.TIOCGETA
	setModes = unix.TIOCSETA
)

// foregroundOf is not known here: a guard leaves the terminal as it is.
func foregroundOf(int) (group int, ok bool) { return 0, false }

// Who else is in the group is not known here.

func kin(int) []int32 { return nil }

func living(int) []int { return nil }

func hasTerminal(int) bool { return false }

func alive(group int) bool { return unix.Kill(-group, 0) != unix.ESRCH }
