package tree

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// StartBeside starts a process beside the first one, of the same tree. It returns a tree of its
// own, of that process and what it starts, which can be killed alone. f is called as
// Start's is. Where the tree is more than a process group, attr has it lead a group of its
// own, which no signal to the command's reaches. It may be called while another goroutine
// calls the tree's other methods, but Close.
func (t *Tree) StartBeside(attr *syscall.SysProcAttr, f func() (pid int, err error)) (*Tree, error) {
	i := Identity{Leads: t.leaf != nil || t.Limit != 0 || t.ID != ""}
	attr.Setpgid = i.Leads || t.Leads
	if !i.Leads {
		attr.Pgid = t.Leader
	}
	folder := t.besideFolder()
	switch {
	case folder >= 0:
		attr.UseCgroupFD, attr.CgroupFD = true, folder
	case t.leaf != nil:
		attr.UseCgroupFD, attr.CgroupFD = true, t.leaf.fd
	}
	if t.Limit != 0 {
		i.Limit = t.Limit | besideMark
	}
	var err error
	i.Leader, err = t.family.startBeside(i.Limit, f)
	if err == nil {
		s, _ := statOf(i.Leader) // not yet reaped
		i.Born = s.born
	} else {
		i = Identity{}
	}
	beside := Known(i, folder)
	if err != nil {
		beside.Close()
		return nil, err
	}
	return beside, nil
}

// besideFolder makes a cgroup below the leaf; -1: there is none.
func (t *Tree) besideFolder() int {
	const name = "beside"
	if t.leaf == nil || unix.Mkdirat(t.leaf.fd, name, 0o755) != nil {
		return -1
	}
	fd, err := openBelow(t.leaf.fd, name)
	if err != nil {
		return -1
	}
	return fd
}

// apart are processes of ours that belong to no tree, and to none of our families.
type apart struct {
	mu       sync.Mutex
	pids     map[int]bool
	limit    uint64 // what their marks, and of what they start, have in common; 0: they have none
	last     uint64 // what the last one's mark has beside that
	starting bool   // there may be one that isn't known yet
}

// asideMarks are the bits by which the marks of processes aside differ.
const asideMarks = 0xffff << 1 // not besideMark

var aside = apart{pids: map[int]bool{}}

// StartAside starts a process that belongs to no tree and leads a group of its own. It may
// outlive many trees, and is never reaped here before ForgetAside. The tree that is returned
// reaches that group, the process's descendants and, by a mark, those that it has lost.
func StartAside(attr *syscall.SysProcAttr, f func() (pid int, err error)) (*Tree, error) {
	attr.Setpgid = true
	births.Lock()
	defer births.Unlock()
	pid, limit, err := aside.start(f)
	if err != nil {
		return nil, err
	}
	s, _ := statOf(pid) // not yet reaped
	return Known(Identity{Leader: pid, Born: s.born, Leads: true, Limit: limit}, -1), nil
}

// ForgetAside says that a process of StartAside's was reaped.
func ForgetAside(pid int) {
	aside.mu.Lock()
	defer aside.mu.Unlock()
	delete(aside.pids, pid)
}

func (a *apart) start(f func() (pid int, err error)) (pid int, limit uint64, err error) {
	a.mu.Lock()
	limit = a.mark()
	a.starting = true
	a.mu.Unlock()
	bear := func() error {
		born := goOn()
		pid, err = f()
		born()
		return err
	}
	if limit == 0 {
		bear()
	} else {
		err = limited(limit, bear)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.starting = false; err == nil {
		a.pids[pid] = true
	}
	return pid, limit, err
}

// mark is one that no other process has, of those that may yet live; 0: there is none.
func (a *apart) mark() uint64 {
	if a.limit == 0 {
		a.limit = newLimit() &^ asideMarks
	}
	if a.limit == 0 {
		return 0
	}
	a.last = (a.last + 2) & asideMarks
	return a.limit | a.last
}

// has reports whether a process is one of them, and of no command.
func (a *apart) has(pid int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pids[pid]
}

// left reports whether a process was started by one of them.
func (a *apart) left(pid int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	soft, hard := limitsOf(pid)
	return a.limit != 0 && (soft&^asideMarks == a.limit || hard&^asideMarks == a.limit)
}

func (a *apart) unknown() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.starting
}
