package tree

import (
	"bytes"
	"syscall"

	"golang.org/x/sys/unix"
)

// found is a process of the tree, not dead, held by its pidfd; -1: there are none.
type found struct {
	stat
	pid, pidfd int
}

// send signals the process. Without a pidfd the time between a last look and the
// signal is all in which the number might be used again.
func (f found) send(sig syscall.Signal) {
	if f.pidfd >= 0 {
		unix.PidfdSendSignal(f.pidfd, sig, nil, 0)
	} else if s, ok := statOf(f.pid); ok && s.born == f.born {
		syscall.Kill(f.pid, sig)
	}
}

// scan calls f with each process of the tree, until f returns false. It reports whether
// everything was looked at. Found processes are held open until the end, so that
// those can be told by them that are only of their descent, and their number can't be
// used again meanwhile.
func (t *Tree) scan(f func(found) bool) (whole bool) {
	if t.Identity == (Identity{}) || !hasProc() {
		return true // nobody, or nothing is known, nor will be
	}
	s := search{tree: t, self: unix.Getpid(), parent: unix.Getppid(), kin: map[int]int{}}
	unix.Getrlimit(unix.RLIMIT_NOFILE, &s.files)
	defer s.close()
	if fd := t.leaderFD(); fd >= 0 {
		s.kin[t.Leader] = fd
	}
	before := unopened.Load()
	whole = true
	read := each("/proc", firstProcess, func(pid int) {
		if s.over {
			return
		}
		found, ok, sure := s.look(pid)
		whole = whole && sure
		if ok {
			s.over = !f(found)
		}
	})
	return read && whole && unopened.Load() == before
}

// leaderFD is a pidfd of the first process, of the caller's own; -1: it is gone.
func (t *Tree) leaderFD() int {
	if t.Leader == 0 {
		return -1
	}
	if t.family == nil {
		if t.leader < 0 {
			return -1
		}
		fd, err := unix.FcntlInt(uintptr(t.leader), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return -1
		}
		return fd
	}
	fd, err := unix.PidfdOpen(t.Leader, 0) // our child, not reaped
	if err != nil {
		return -1
	}
	return fd
}

// search is one scan.
type search struct {
	tree   *Tree
	self   int
	parent int         // the guard's is flockd, which bears the mark while it starts the command
	kin    map[int]int // the pidfds of those found
	files  unix.Rlimit // how many descriptors we may have
	over   bool
}

// spare is how many descriptors are left to others: a process whose files can't be
// read would not be seen to be of the tree.
const spare = 16

func (s *search) close() {
	for _, fd := range s.kin {
		unix.Close(fd)
	}
}

// look reports whether pid is of the tree and not dead, and whether that is sure.
func (s *search) look(pid int) (f found, ok, sure bool) {
	st, ok := statOf(pid)
	if !ok || pid == s.self || pid == s.parent || !s.belongs(pid, st) {
		return found{}, false, true
	}
	fd, ok := s.kin[pid]
	if !ok {
		var err error
		if fd, err = unix.PidfdOpen(pid, 0); err == unix.EMFILE || err == unix.ENFILE {
			s.forget()
			fd, err = unix.PidfdOpen(pid, 0)
		}
		switch err {
		case nil:
		case unix.ENOSYS, unix.EPERM:
			// Before Linux 5.3, or forbidden: there is no better way than by number.
			return found{st, pid, -1}, !st.dead(), true
		default:
			return found{}, false, err == unix.ESRCH
		}
		if uint64(fd)+spare >= s.files.Cur { // the lowest that was free
			s.forget()
		}
		// Now the number stays what it is: was it of the tree before as well?
		if st, ok = statOf(pid); !ok || !s.belongs(pid, st) {
			unix.Close(fd)
			return found{}, false, true
		}
		s.kin[pid] = fd
	}
	return found{st, pid, fd}, !exited(fd), true
}

// forget makes room for other descriptors: descent from those is not seen any more.
func (s *search) forget() {
	for pid, fd := range s.kin {
		unix.Close(fd)
		delete(s.kin, pid)
	}
}

// belongs reports whether a process is of the tree. Descent counts only from one that
// isn't dead after the child was looked at: else its number may be another's.
func (s *search) belongs(pid int, st stat) bool {
	t := s.tree
	switch {
	case pid == t.Leader && s.leads():
		return true
	case t.Born != 0 && st.born < t.Born:
		return false
	case t.family != nil && t.family.has(pid):
		return false
	case t.Leads && st.group == t.Leader && s.leads():
		return true
	case t.marked(pid):
		return true
	}
	return (s.alive(st.parent) || t.family != nil && t.family.orphan(st.parent) && !aside.left(pid)) && !isGuard(pid)
}

// leads reports whether the first process's number, and its group's, is yet the tree's.
func (s *search) leads() bool {
	return s.tree.family != nil || s.tree.leader >= 0 && !exited(s.tree.leader)
}

func (s *search) alive(pid int) bool {
	fd, ok := s.kin[pid]
	return ok && !exited(fd)
}

// isGuard reports whether pid is a guard, by its command line.
func isGuard(pid int) bool {
	var buf [len(GuardName)]byte
	return bytes.Equal(read(of(pid, "cmdline"), buf[:]), []byte(GuardName))
}
