package tree

import (
	"errors"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// births is held over each start: the limit that a child inherits is the whole process's.
var births sync.Mutex

// Family are the children of this process: the command, others that we start, and
// where it adopts, those of the command's that lost their parents.
type Family struct {
	// mu isn't held over a start, as births is: that may take its time, with a slow disk or no
	// memory, and nobody who has a command to kill may wait for it.
	mu       sync.Mutex
	ours     map[int]bool
	leader   int
	beside   int  // started beside the command, and not yet reaped; 0: none
	starting bool // there may be a child that isn't known yet
	adopts   bool // orphans of the command become our children
	mixed    bool // others may become our children as well: only marks tell
}

// newFamily adopts, or not, what descends from us.
func newFamily(adopts bool) *Family {
	f := &Family{ours: map[int]bool{}}
	if adopts {
		f.adopt()
	}
	return f
}

// adopt makes orphans of the command, which isn't started yet, our children.
func (f *Family) adopt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	// A shell that became flockd by exec leaves its children to it, and the first
	// process of a container is left those of everybody.
	f.mixed = unix.Getpid() == 1 || len(childrenOf(unix.Getpid())) > len(f.ours)
	f.adopts = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil
}

// start starts the command, with its mark. stopped: see goOn.
func (f *Family) start(limit uint64, start func() (pid int, err error)) (pid int, stopped bool, err error) {
	births.Lock()
	defer births.Unlock()
	bear := func() error {
		pid, stopped, err = f.bear(start, func(pid int) { f.leader = pid })
		return err
	}
	if limit == 0 {
		bear()
	} else {
		err = limited(limit, bear)
	}
	return pid, stopped, err
}

// Start starts a process that belongs to no command. It is never taken for a
// left-over, nor reaped here, before Forget.
func (f *Family) Start(start func() (pid int, err error)) error {
	births.Lock()
	defer births.Unlock()
	return limited(0, func() error {
		_, _, err := f.bear(start, func(pid int) { f.ours[pid] = true })
		return err
	})
}

// startBeside starts a process beside the command, with a mark of its own. It is not reaped here
// before Reaped.
func (f *Family) startBeside(limit uint64, start func() (pid int, err error)) (pid int, err error) {
	births.Lock()
	defer births.Unlock()
	bear := func() error {
		pid, _, err = f.bear(start, func(pid int) { f.beside = pid })
		return err
	}
	if limit == 0 {
		return pid, bear()
	}
	err = limited(limit, bear)
	return pid, err
}

// Reaped says that the process beside the command was reaped.
func (f *Family) Reaped() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beside = 0
}

// bear starts a process, and has it noted before anybody may ask whose it is.
func (f *Family) bear(start func() (pid int, err error), note func(pid int)) (pid int, stopped bool, err error) {
	f.mu.Lock()
	f.starting = true
	f.mu.Unlock()
	born := goOn()
	pid, err = start()
	stopped = born()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starting = false
	if err == nil {
		note(pid)
	}
	return pid, stopped, err
}

// Forget says that a process of Start's was reaped.
func (f *Family) Forget(pid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.ours, pid)
}

// has reports whether pid is one of ours and of no command.
func (f *Family) has(pid int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ours[pid] || aside.has(pid)
}

// orphan reports whether a child of parent is the command's for that alone.
func (f *Family) orphan(parent int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.adopts && !f.mixed && !f.starting && parent == unix.Getpid() && !aside.unknown()
}

// outlived reports whether a child is left that is the tree's. On the way it reaps those
// that have ended; the first process of a container, everybody's.
func (f *Family) outlived(i Identity) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.starting || aside.unknown() {
		return true // not known yet
	}
	left := false
	for _, pid := range childrenOf(unix.Getpid()) {
		if pid == f.leader || f.ours[pid] || aside.has(pid) {
			continue
		}
		if pid == f.beside {
			left = true
			continue
		}
		stranger := aside.left(pid)
		its := f.adopts && !f.mixed && !stranger || i.marked(pid)
		if !its && unix.Getpid() != 1 && !stranger {
			continue
		}
		got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		left = left || its && got != pid && !errors.Is(err, syscall.ECHILD)
	}
	return left
}

// Reap reaps orphans that have ended.
func (t *Tree) Reap() {
	if t.family.adopts || unix.Getpid() == 1 {
		t.family.outlived(t.Identity)
	}
}

func (f *Family) close() {
	if f.adopts {
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	}
}
