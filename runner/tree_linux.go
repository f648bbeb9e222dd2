package runner

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// group is the process group that a command leads. It doesn't reach what left
// the group.
type group struct{ id int }

func (g group) signal(sig syscall.Signal) { syscall.Kill(-g.id, sig) }

func (g group) live() bool {
	dir, err := os.Open("/proc")
	if err != nil {
		return true // can't be proven
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return true
	}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if s, ok := statOf(pid); ok && s.group == g.id && !s.dead() {
				return true
			}
		}
	}
	return false
}

// walkFor is how long a look for descendants may take, before a signal that has
// its time: a tree that forks faster than it is read has no end.
const walkFor = 20 * time.Millisecond

// descent is a command and its descendants. It is followed from parent to child, so
// that a process whose parent ended before it was seen is not reached; once seen
// it stays known. What is in the command's own group is reached by that, and known
// by it: the group's number isn't used again while the leader isn't reaped.
type descent struct {
	leader int
	group  group       // that the command leads; zero: it shares a group with others
	known  map[int]int // by process number, of those outside of the group: its pidfd
	whole  bool        // the last walk has seen everything
}

// newDescent follows the command pid, which leads a group or not.
func newDescent(pid int, leads bool) *descent {
	d := &descent{leader: pid, known: map[int]int{}}
	if leads {
		d.group = group{pid}
	}
	return d
}

// signal reaches what was there when it began. Before KILL everything is stopped,
// which ends its work as soon, and keeps it from forking and from losing its
// parents while it is looked for. After KILL, look again.
func (d *descent) signal(sig syscall.Signal) {
	if sig == syscall.SIGKILL {
		d.send(syscall.SIGSTOP)
	}
	d.walk(sig == syscall.SIGKILL)
	d.send(sig)
}

// send signals the group, or else the command, and who is known.
func (d *descent) send(sig syscall.Signal) {
	if d.group != (group{}) {
		d.group.signal(sig)
	} else {
		syscall.Kill(d.leader, sig) // not yet reaped, so it is ours
	}
	for _, fd := range d.known {
		unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// live reports whether something isn't dead, or wasn't looked at.
func (d *descent) live() bool {
	d.walk(false)
	if !d.whole || len(d.known) > 0 {
		return true
	}
	if d.group != (group{}) {
		return d.group.live()
	}
	s, ok := statOf(d.leader)
	return ok && !s.dead()
}

func (d *descent) close() {
	for _, fd := range d.known {
		unix.Close(fd)
	}
}

// walk looks once at each process that it finds, and stops those outside of the
// group if it is told to, before it looks at their children.
func (d *descent) walk(stop bool) {
	d.forget()
	queue := append([]int{d.leader}, slices.Collect(maps.Keys(d.known))...)
	seen := map[int]bool{}
	d.whole = true
	for end := time.Now().Add(walkFor); len(queue) > 0; {
		if time.Now().After(end) {
			d.whole = false
			return
		}
		parent := queue[0]
		queue = queue[1:]
		for _, child := range childrenOf(parent) {
			if !seen[child] && d.admit(child, parent, stop) {
				queue = append(queue, child)
			}
			seen[child] = true
		}
	}
}

// forget lets go of the dead.
func (d *descent) forget() {
	for pid, fd := range d.known {
		if exited(fd) {
			unix.Close(fd)
			delete(d.known, pid)
		}
	}
}

// admit reports whether pid is a live child of parent, and keeps it if it is
// outside of the group.
func (d *descent) admit(pid, parent int, stop bool) bool {
	s, ok := statOf(pid)
	switch {
	case !ok || s.parent != parent || s.dead():
		return false
	case d.in(s), d.known[pid] != 0:
		return true
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		d.whole = d.whole && errors.Is(err, unix.ESRCH) // no descriptor is left: another look, when some have died
		return false
	}
	// Now the number stays what it is. It was used again meanwhile if its parent,
	// or its parent's number, isn't ours.
	if s, ok := statOf(pid); !ok || s.parent != parent || !d.ours(parent) || exited(fd) {
		unix.Close(fd)
		return false
	}
	d.known[pid] = fd
	if stop {
		unix.PidfdSendSignal(fd, syscall.SIGSTOP, nil, 0)
	}
	return true
}

// in reports whether a process is in the command's own group.
func (d *descent) in(s stat) bool { return d.group != (group{}) && s.group == d.group.id }

// ours reports whether the number pid still names one of the tree.
func (d *descent) ours(pid int) bool {
	if fd, ok := d.known[pid]; ok {
		return !exited(fd)
	}
	s, ok := statOf(pid)
	return pid == d.leader || ok && d.in(s)
}

// exited reports whether the process is dead, a zombie or gone.
func exited(pidfd int) bool {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1
}

// childrenOf lists the children of every thread of pid.
func childrenOf(pid int) []int {
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	var children []int
	for _, thread := range threads {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name()))
		for _, field := range bytes.Fields(text) {
			if n, err := strconv.Atoi(string(field)); err == nil {
				children = append(children, n)
			}
		}
	}
	return children
}

// stat is what /proc/PID/stat says of a process.
type stat struct {
	state         byte
	parent, group int
}

func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' }

func statOf(pid int) (stat, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, false
	}
	return parseStat(text)
}

// parseStat begins behind the last parenthesis: a process may call itself
// anything, parentheses and spaces included.
func parseStat(text []byte) (s stat, ok bool) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 3 || len(fields[0]) != 1 {
		return stat{}, false
	}
	s.state = fields[0][0]
	var err1, err2 error
	s.parent, err1 = strconv.Atoi(string(fields[1]))
	s.group, err2 = strconv.Atoi(string(fields[2]))
	return s, err1 == nil && err2 == nil
}
