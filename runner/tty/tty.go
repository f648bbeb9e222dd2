//go:build unix

// Package tty is a run's controlling terminal: who is in its foreground, and how it was
// before the command ran. A command that is killed can't put back what it changed; flockd
// does, or where that is dead, the guard.
//
// The package is part of the guard, which is at work before other packages are
// initialised: it imports little.
package tty

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Terminal is a controlling terminal that flockd has, and its guard as well. A nil
// *Terminal is none, and every method may be called on it.
type Terminal struct {
	fd    int
	state state
}

// state is what a guard has to know of a terminal, beside its descriptor.
type state struct {
	group   int32 // flockd's
	session int32 // the session's leader, by which a process elsewhere learns who is in the foreground
	known   int32 // modes are those from before the command; else they were another's already
	modes   unix.Termios
	kin     [kinAtMost]int32 // flockd, and who is in its group from before it: a script, a shell in between; 0: no more
}

// kinAtMost is more than any script is deep in one group.
const kinAtMost = 16

// Open opens the controlling terminal, before the command starts; nil: there is none.
func Open() *Terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	t := &Terminal{fd: fd, state: state{group: int32(unix.Getpgrp())}}
	if session, err := unix.Getsid(0); err == nil {
		t.state.session = int32(session)
	}
	copy(t.state.kin[:], kin(unix.Getpgrp()))
	// A pager at our other end may have had it before us.
	if modes, err := unix.IoctlGetTermios(fd, getModes); err == nil && t.Ours() && modes.Lflag&unix.ICANON != 0 {
		t.state.modes, t.state.known = *modes, 1
	}
	return t
}

// InForeground reports whether our group is in the foreground of the terminal fd.
func InForeground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// FD is the terminal's descriptor; -1: there is none.
func (t *Terminal) FD() int {
	if t == nil {
		return -1
	}
	return t.fd
}

// Encode is what Decode takes, in the same program.
func (t *Terminal) Encode() []byte {
	if t == nil {
		return nil
	}
	return append([]byte(nil), t.state.bytes()...)
}

// Decode is the terminal that is open as fd in another process; nil: there is none.
func Decode(body []byte, fd int) *Terminal {
	t := &Terminal{fd: fd}
	if len(body) != len(t.state.bytes()) {
		return nil
	}
	copy(t.state.bytes(), body)
	return t
}

func (s *state) bytes() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s)) }

// Ours reports whether flockd's group is in the foreground.
func (t *Terminal) Ours() bool {
	if t == nil {
		return false
	}
	group, ok := t.foreground()
	return ok && group == int(t.state.group)
}

// foreground is the group in the foreground; not ok: the terminal is gone, or it is not known.
func (t *Terminal) foreground() (group int, ok bool) {
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err == unix.ENOTTY { // a guard is in a session of its own
		return foregroundOf(int(t.state.session))
	}
	return group, err == nil
}

// GiveBack puts the terminal's modes back, once nothing is left of a command that was
// killed, unless the terminal is somebody else's by now: of another group in the
// foreground, or of a neighbour in a pipeline. A group that is dead, as
// of a shell inside the command, gives it to flockd's; only flockd itself may do that.
// Where the modes are not known, since flockd began in the background or after a pager,
// they become such as a shell reads lines with.
func (t *Terminal) GiveBack() {
	if t == nil || t.neighbours() {
		return
	}
	group, ok := t.foreground() // last: a shell may take the terminal at any moment
	switch {
	case !ok || group > 1 && group != int(t.state.group) && alive(group):
		return
	case group != int(t.state.group):
		if unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, int(t.state.group)) != nil {
			return
		}
	}
	modes := t.state.modes
	if t.state.known == 0 {
		now, err := unix.IoctlGetTermios(t.fd, getModes)
		if err != nil {
			return
		}
		modes = sane(*now)
	}
	unix.IoctlSetTermios(t.fd, setModes, &modes) // at once: output may be held by Ctrl-S
}

// neighbours reports whether others in flockd's group than those from before it have the
// terminal open for themselves, as a pager has whose stdin is a pipe.
func (t *Terminal) neighbours() bool {
	for _, pid := range living(int(t.state.group)) {
		if !slices.Contains(t.state.kin[:], int32(pid)) && hasTerminal(pid) {
			return true
		}
	}
	return false
}

// Raw reports whether fd is a terminal that leaves a line feed as it is: an editor has it
// that way.
func Raw(fd int) bool {
	modes, err := unix.IoctlGetTermios(fd, getModes)
	return err == nil && modes.Oflag&unix.OPOST == 0
}

// sane has lines read and shown, and keys that send signals.
func sane(m unix.Termios) unix.Termios {
	m.Iflag = m.Iflag&^(unix.INLCR|unix.IGNCR) | unix.ICRNL | unix.BRKINT | unix.IXON
	m.Oflag |= unix.OPOST | unix.ONLCR
	m.Lflag |= unix.ISIG | unix.ICANON | unix.ECHO | unix.ECHOE | unix.ECHOK | unix.IEXTEN
	return m
}

// Close lets go of the terminal.
func (t *Terminal) Close() {
	if t != nil {
		unix.Close(t.fd)
	}
}
