package tree

import (
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Tree is a command's tree as one process sees it: flockd, whose child the command
// is, or the guard.
type Tree struct {
	Identity
	leaf   *leaf   // nil: none
	family *Family // nil: the first process isn't our child
	leader int     // a pidfd of the first process, where it isn't our child; -1: none

	stopped bool // at birth
}

// shortestID is how long an ID has to be to be a mark, in bytes: what is in a
// stranger's environment by chance is shorter.
const shortestID = 32

// New prepares a tree whose first process this process will start. An ID that is no
// random one isn't looked for. A leaf is made where that is possible.
func New(id string) *Tree {
	t := &Tree{leaf: newLeaf(), leader: -1}
	if hasProc() {
		t.Limit = newLimit()
		if len(id) >= shortestID {
			t.ID = id
		}
	}
	t.family = newFamily(t.leaf == nil)
	return t
}

// Known is a tree of somebody else's, by its identity and the folder of its leaf,
// which the tree takes over; a folder of anything else, or -1, is none.
func Known(i Identity, folder int) *Tree {
	t := &Tree{Identity: i, leaf: adopt(folder), leader: -1}
	t.follow()
	return t
}

// Update replaces the identity of a known tree, whose first process may have been
// started meanwhile.
func (t *Tree) Update(i Identity) {
	if i.Leader != t.Leader && t.leader >= 0 {
		unix.Close(t.leader)
		t.leader = -1
	}
	t.Identity = i
	t.follow()
}

// Abandon lets go of a known tree: from now on it has nobody in it.
func (t *Tree) Abandon() {
	if t.leaf != nil {
		t.leaf.close() // who is left in it, by itself or for another, stays
		t.leaf = nil
	}
	t.Update(Identity{})
}

// follow opens a pidfd of the first process, if it yet is the one that was meant.
func (t *Tree) follow() {
	if t.Leader == 0 || t.leader >= 0 {
		return
	}
	fd, err := unix.PidfdOpen(t.Leader, 0)
	if err != nil {
		return
	}
	if s, ok := statOf(t.Leader); !ok || t.Born == 0 || s.born != t.Born {
		unix.Close(fd)
		return
	}
	t.leader = fd
}

// Folder is the leaf's folder, for a guard; -1: there is none. It stays what it is
// while a Start of the family lasts.
func (t *Tree) Folder() int {
	if t.leaf == nil {
		return -1
	}
	return t.leaf.fd
}

// Start starts the first process: f starts it with attr and returns its number.
// Where it can't be started inside the leaf, it is once more without. Attr's process
// group, if it is to lead one, is the caller's to set.
func (t *Tree) Start(attr *syscall.SysProcAttr, f func() (pid int, err error)) error {
	t.Leads = attr.Setpgid
	if t.leaf != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, t.leaf.fd
	}
	var err error
	t.Leader, t.stopped, err = t.family.start(t.Limit, f)
	if err != nil && t.leaf != nil {
		// The kernel says why a cgroup can't be entered in the words that it has for
		// files; a true fault of the file comes again.
		attr.UseCgroupFD = false
		t.dropLeaf()
		t.family.adopt()
		t.Leader, t.stopped, err = t.family.start(t.Limit, f)
	}
	if err == nil {
		s, _ := statOf(t.Leader) // not yet reaped
		t.Born = s.born
	}
	return err
}

// StoppedAtBirth reports whether a terminal has stopped the first process before it was
// the command. It was made to go on, and should be stopped again.
func (t *Tree) StoppedAtBirth() bool { return t.stopped }

// Family are the children of this process, of which some are no command's.
func (t *Tree) Family() *Family { return t.family }

// Containment says by what the tree is held, for people.
func (t *Tree) Containment() string {
	if t.leaf != nil {
		return "cgroup " + t.leaf.path
	}
	var by []string
	if t.Leads {
		by = append(by, "process group")
	}
	switch {
	case t.Limit != 0:
		by = append(by, "marks")
	case t.ID != "": // a hard limit keeps us from setting the other mark
		by = append(by, "environment")
	case !t.Leads:
		by = append(by, "first process")
	}
	return strings.Join(by, ", ")
}

// Signal sends sig to every process of the tree that there was when it began. KILL
// is to be sent again until Live says that nobody is left: what was being forked may
// have escaped.
func (t *Tree) Signal(sig syscall.Signal) {
	if t.leaf != nil && sig == syscall.SIGKILL {
		t.leaf.kill()
	}
	if t.family != nil && t.Leads && t.Leader != 0 {
		syscall.Kill(-t.Leader, sig) // the leader isn't reaped, so the number is ours
	}
	if t.leaf != nil {
		t.leaf.signal(sig, t.reached)
	}
	t.scan(func(f found) bool {
		// Those in the leaf and the group have it. KILL does no harm twice, and the
		// kernel's way passes those by whose first thread has ended (Linux 6.18).
		if sig != syscall.SIGKILL && (t.reached(f.pid) || t.leaf != nil && t.leaf.has(f.pid)) {
			return true
		}
		f.send(sig)
		return true
	})
}

// reached reports whether a signal to the group reached pid.
func (t *Tree) reached(pid int) bool {
	if t.family == nil || !t.Leads {
		return false
	}
	s, ok := statOf(pid)
	return ok && s.group == t.Leader
}

// Live reports whether somebody of the tree isn't dead, a zombie is. It looks at each
// process of the host.
func (t *Tree) Live() bool {
	if t.leaf != nil && t.leaf.populated() {
		return true
	}
	live := false
	whole := t.scan(func(found) bool { live = true; return false })
	return live || !whole
}

// Outlived reports whether somebody outlives the first process, which has ended. It
// looks at the leaf, or at our children, and so misses who left the leaf.
func (t *Tree) Outlived() bool {
	if t.leaf != nil {
		return t.leaf.populated()
	}
	return t.family.outlived(t.Identity)
}

// Members are those of the tree that aren't dead.
func (t *Tree) Members() []Process {
	var list []Process
	if t.leaf != nil {
		for _, pid := range t.leaf.members() {
			if s, ok := statOf(pid); ok {
				list = append(list, Process{pid, s.name})
			}
		}
	}
	t.scan(func(f found) bool {
		p := Process{f.pid, f.name}
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
		return true
	})
	return list
}

// dropLeaf lets go of the leaf. Who is left in it is moved to where it would be without.
func (t *Tree) dropLeaf() {
	if t.leaf == nil {
		return
	}
	if t.family != nil {
		births.Lock() // a guard may be starting, and inherit it
		defer births.Unlock()
		t.leaf.leave()
	}
	t.leaf.remove()
	t.leaf = nil
}

// Close lets go of the tree, and of who is left of it.
func (t *Tree) Close() {
	if t.family != nil && t.Leader != 0 && t.Outlived() {
		t.scan(func(f found) bool { unmark(f.pid, t.Limit); return true })
	}
	t.dropLeaf()
	if t.leader >= 0 {
		unix.Close(t.leader)
		t.leader = -1
	}
	if t.family != nil {
		t.family.close()
	}
}
