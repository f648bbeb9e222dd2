package tree

import (
	"bytes"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// leafPrefix is how our folders among the cgroups begin.
const leafPrefix = "flockd-"

// leaf is a cgroup of our own. Whoever has it open holds a shared lock on its folder,
// so that a leaf without one was left behind by flockd and a guard that both died.
type leaf struct {
	fd     int
	parent int    // the folder that it is in; -1: somebody else removes it
	name   string // below parent
	path   string
	inside string // as a /proc/PID/cgroup of a member says
}

// newLeaf makes a leaf in our own cgroup; nil where there is none, or none for us.
func newLeaf() *leaf {
	folder := ownCgroup()
	if folder == "" {
		return nil
	}
	parent, err := open(folder, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	sweep(parent)
	// Whoever starts at this very moment may sweep ours before we hold it.
	for range 10 {
		l := &leaf{fd: -1, parent: parent, name: newName()}
		l.path = folder + "/" + l.name
		if unix.Mkdirat(parent, l.name, 0o755) != nil {
			break
		}
		if l.hold() {
			return l
		}
		removeAll(parent, l.name)
	}
	unix.Close(parent)
	return nil
}

func newName() string {
	return leafPrefix + strconv.Itoa(unix.Getpid()) + "-" + strconv.FormatUint(uint64(nonce()), 36)
}

// hold opens the leaf for as long as we need it, and reports whether it was not swept
// before.
func (l *leaf) hold() bool {
	fd, err := openBelow(l.parent, l.name)
	if err != nil {
		return false
	}
	if unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) != nil || unix.Faccessat(fd, "cgroup.procs", unix.F_OK, 0) != nil {
		unix.Close(fd)
		return false
	}
	l.fd = fd
	return true
}

// nonce is a number that nobody else draws: folders of one process number, in two
// containers with one hierarchy, differ by it.
func nonce() (n uint32) {
	var random [4]byte
	unix.Getrandom(random[:], 0)
	for _, b := range random {
		n = n<<8 | uint32(b)
	}
	return n
}

// isLeaf reports whether a folder's name is one of newName's.
func isLeaf(name string) bool {
	rest, ok := bytes.CutPrefix([]byte(name), []byte(leafPrefix))
	pid, random, cut := bytes.Cut(rest, []byte("-"))
	_, err1 := strconv.ParseUint(string(pid), 10, 32)
	_, err2 := strconv.ParseUint(string(random), 36, 32)
	return ok && cut && err1 == nil && err2 == nil
}

// sweep removes the leaves below parent that were left behind, once they are empty.
func sweep(parent int) {
	for _, name := range foldersIn(parent) {
		if isLeaf(name) {
			sweepOne(parent, name)
		}
	}
}

// sweepOne keeps its lock until the folder is gone: who has just made it must not come
// to hold it in between.
func sweepOne(parent int, name string) {
	fd, err := openBelow(parent, name)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	l := leaf{fd: fd}
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil && !l.populated() {
		removeAll(parent, name)
	}
}

// removeAll removes a cgroup's folder with the folders in it, where nobody is left in
// them. Leaves of others stay while these hold them.
func removeAll(parent int, name string) {
	err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
	if err != unix.EBUSY && err != unix.ENOTEMPTY {
		return
	}
	fd, err := openBelow(parent, name)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for _, child := range foldersIn(fd) {
		if isLeaf(child) {
			sweepOne(fd, child)
		} else {
			removeAll(fd, child)
		}
	}
	unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
}

// kill kills all in one step of the kernel's, where it can do that (Linux 5.14).
func (l *leaf) kill() {
	fd, err := unix.Openat(l.fd, "cgroup.kill", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	unix.Write(fd, []byte("1"))
}

// populated reports whether a process lives in the leaf or below it. A folder that is
// gone has none.
func (l *leaf) populated() bool {
	fd, err := unix.Openat(l.fd, "cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err != unix.ENOENT && err != unix.ENODEV
	}
	defer unix.Close(fd)
	var buf [128]byte
	text := drain(fd, buf[:])
	return !bytes.Contains(text, []byte("populated 0"))
}

// members are the numbers of those in the leaf and below; 0 is one of another pid
// namespace.
func (l *leaf) members() (list []int) {
	visit(l.fd, func(string) bool { return true }, func(fd int) { list = append(list, procs(fd)...) })
	return list
}

// own are the members that are in no leaf below.
func (l *leaf) own() (list []int) {
	visit(l.fd, func(name string) bool { return !isLeaf(name) }, func(fd int) { list = append(list, procs(fd)...) })
	return list
}

func procs(folder int) []int {
	return numbers("/proc/self/fd/" + strconv.Itoa(folder) + "/cgroup.procs")
}

// visit calls f with a cgroup's folder and those below it whose names are let in.
func visit(fd int, let func(name string) bool, f func(fd int)) {
	f(fd)
	for _, name := range foldersIn(fd) {
		if !let(name) {
			continue
		}
		if below, err := openBelow(fd, name); err == nil {
			visit(below, let, f)
			unix.Close(below)
		}
	}
}

// has reports whether a process is in the leaf or below it now.
func (l *leaf) has(pid int) bool {
	if l.inside == "" {
		l.inside = insideOf(l.path, readAll("/proc/self/mountinfo", longestMountinfo))
	}
	var buf [16 << 10]byte
	path := cgroupPath(read(of(pid, "cgroup"), buf[:]))
	n := len(l.inside)
	return n > 0 && len(path) >= n && path[:n] == l.inside && (len(path) == n || path[n] == '/')
}

// signal sends sig to each member through a pidfd.
func (l *leaf) signal(sig syscall.Signal, skip func(pid int) bool) {
	for _, pid := range l.members() {
		if pid == 0 || skip(pid) {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if l.has(pid) && !exited(fd) {
			unix.PidfdSendSignal(fd, sig, nil, 0)
		}
		unix.Close(fd)
	}
}

// leave moves the members to our own cgroup, where they would be without us. Another
// flockd's leaf below stays where it is, and the folder with it.
func (l *leaf) leave() {
	if len(l.own()) == 0 {
		return
	}
	to, err := unix.Openat(l.parent, "cgroup.procs", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(to)
	for range 100 { // somebody may fork meanwhile
		moved := false
		for _, pid := range l.own() {
			if pid == 0 {
				continue // of another pid namespace: it would stand for ourselves
			}
			_, err := unix.Write(to, []byte(strconv.Itoa(pid)))
			moved = moved || err == nil
		}
		if !moved {
			return
		}
	}
}

// close lets go of the leaf, and leaves its folder to others.
func (l *leaf) close() {
	unix.Close(l.fd)
	if l.parent >= 0 {
		unix.Close(l.parent)
	}
}

// remove lets go of the leaf, and removes its folder unless somebody is in it.
func (l *leaf) remove() {
	if l.parent >= 0 {
		removeAll(l.parent, l.name)
	}
	l.close()
}

// adopt takes over a leaf by its folder; nil: it is no leaf.
func adopt(fd int) *leaf {
	var fs unix.Statfs_t
	if fd < 0 || unix.Fstatfs(fd, &fs) != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil
	}
	l := &leaf{fd: fd, parent: -1}
	var buf [4096]byte
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), buf[:])
	if err != nil {
		return l
	}
	l.path = string(buf[:n])
	l.name = l.path[bytes.LastIndexByte(buf[:n], '/')+1:]
	if parent, err := unix.Openat(fd, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		l.parent = parent
	}
	return l
}
