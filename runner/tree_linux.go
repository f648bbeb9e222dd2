package runner

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"

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

// family is a command that leads a group, with what left the group but can be found
// from parent to child: timeout(1) in a script leads a group of its own.
type family struct {
	group
	descent *descent
}

func newFamily(pid int) family { return family{group{pid}, newDescent(pid)} }

func (f family) signal(sig syscall.Signal) {
	f.descent.find() // before the parents are gone
	f.group.signal(sig)
	f.descent.signalTo(sig, func(pid int) bool {
		s, ok := statOf(pid)
		return ok && s.group != f.id
	})
}

func (f family) live() bool { return f.group.live() || f.descent.live() }

func (f family) close() { f.descent.close() }

// descent is a command and its descendants. It is followed from parent to child, so
// that a process whose parent ended before it was seen is not reached; once seen
// it stays known.
type descent struct {
	leader int
	known  map[int]int // by process number: its pidfd
}

func newDescent(pid int) *descent {
	d := &descent{leader: pid, known: map[int]int{}}
	if fd, err := unix.PidfdOpen(pid, 0); err == nil { // not yet reaped, so it is ours
		d.known[pid] = fd
	}
	return d
}

// signal reaches what was there when it began. After KILL, look again.
func (d *descent) signal(sig syscall.Signal) {
	d.find()                    // before the parents are gone
	syscall.Kill(d.leader, sig) // reached where there are no pidfds, too
	d.signalTo(sig, func(pid int) bool { return pid != d.leader })
}

func (d *descent) signalTo(sig syscall.Signal, chosen func(pid int) bool) {
	d.find()
	for pid, fd := range d.known {
		if chosen(pid) {
			unix.PidfdSendSignal(fd, sig, nil, 0)
		}
	}
}

func (d *descent) live() bool {
	d.find()
	return len(d.known) > 0
}

func (d *descent) close() {
	for _, fd := range d.known {
		unix.Close(fd)
	}
}

// find forgets the dead and adds children of the others until there is none left
// to add.
func (d *descent) find() {
	for pid, fd := range d.known {
		if exited(fd) {
			unix.Close(fd)
			delete(d.known, pid)
		}
	}
	for again := true; again; {
		again = false
		for pid := range d.known {
			for _, child := range childrenOf(pid) {
				again = d.add(child, pid) || again
			}
		}
	}
}

// add opens the process before it looks whose child it is: a number that was
// used again meanwhile names a process with another parent.
func (d *descent) add(pid, parent int) bool {
	if _, ok := d.known[pid]; ok {
		return false
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	if s, ok := statOf(pid); !ok || s.parent != parent || exited(d.known[parent]) || exited(fd) {
		unix.Close(fd)
		return false
	}
	d.known[pid] = fd
	return true
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
