//go:build !linux

package tree

import (
	"sync"
	"syscall"
)

// Tree is a command's process group, as one process sees it.
type Tree struct {
	Identity
	family *Family
	killed bool // the group has been sent KILL
}

// New prepares a tree whose first process this process will start.
func New(id string) *Tree { return &Tree{Identity: Identity{ID: id}, family: &Family{}} }

// Known is a tree of somebody else's, by its identity.
func Known(i Identity, folder int) *Tree { return &Tree{Identity: i} }

// Update replaces the identity of a known tree.
func (t *Tree) Update(i Identity) { t.Identity = i }

// Abandon lets go of a known tree: from now on it has nobody in it.
func (t *Tree) Abandon() { t.Identity = Identity{} }

// Folder is the leaf's folder; -1: there is none.
func (t *Tree) Folder() int { return -1 }

// Start starts the first process: f starts it with attr and returns its number.
func (t *Tree) Start(attr *syscall.SysProcAttr, f func() (pid int, err error)) (err error) {
	t.Leads = attr.Setpgid
	t.Leader, err = f()
	return err
}

// Stopped reports whether a process is stopped, for all that is known: nothing.
func Stopped(int) bool { return true }

// StoppedAtBirth reports whether a terminal has stopped the first process before it was
// the command: not known.
func (t *Tree) StoppedAtBirth() bool { return false }

// Family are the children of this process.
func (t *Tree) Family() *Family { return t.family }

// StartBeside starts a process beside the first one, in its group. The tree that is returned is
// that process alone.
func (t *Tree) StartBeside(attr *syscall.SysProcAttr, f func() (pid int, err error)) (*Tree, error) {
	if t.Leads {
		attr.Setpgid, attr.Pgid = true, t.Leader
	}
	pid, err := f()
	return &Tree{Identity: Identity{Leader: pid}}, err
}

// StartAside starts a process that belongs to no tree and leads a group of its own, which the
// tree that is returned is.
func StartAside(attr *syscall.SysProcAttr, f func() (pid int, err error)) (*Tree, error) {
	attr.Setpgid = true
	pid, err := f()
	return &Tree{Identity: Identity{Leader: pid, Leads: true}}, err
}

// ForgetAside says that a process of StartAside's was reaped.
func ForgetAside(int) {}

// Containment says by what the tree is held, for people.
func (t *Tree) Containment() string {
	if t.Leads {
		return "process group"
	}
	return "first process"
}

// Signal sends sig to the group, or the first process. Once that has been reaped, as
// it is when the guard acts for a flockd that is dead, the group's number is its own
// only while somebody is in it: here that is not proven.
func (t *Tree) Signal(sig syscall.Signal) {
	t.killed = t.killed || sig == syscall.SIGKILL
	switch {
	case t.Leader == 0:
	case t.Leads:
		syscall.Kill(-t.Leader, sig)
	default:
		syscall.Kill(t.Leader, sig)
	}
}

// Live reports whether somebody of the tree may be left. A zombie counts on some
// systems, so that whoever has been sent KILL is taken for dead.
func (t *Tree) Live() bool {
	pid := t.Leader
	if t.Leads {
		pid = -pid
	}
	return t.Leader != 0 && !t.killed && syscall.Kill(pid, 0) == nil
}

// Outlived reports whether somebody outlives the first process: not known.
func (t *Tree) Outlived() bool { return false }

// Members are those of the tree that aren't dead: not known.
func (t *Tree) Members() []Process { return nil }

// Reap reaps orphans: there are none.
func (t *Tree) Reap() {}

// Close lets go of the tree.
func (t *Tree) Close() {}

// Family are the children of this process.
type Family struct{ mu sync.Mutex }

// Start starts a process that belongs to no command.
func (f *Family) Start(start func() (pid int, err error)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := start()
	return err
}

// Reaped says that the process beside the command was reaped.
func (f *Family) Reaped() {}

// Forget says that a process of Start's was reaped.
func (f *Family) Forget(int) {}
