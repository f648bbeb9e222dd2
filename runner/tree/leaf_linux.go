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

// sweep removes the leaves below parent that were left behind, once they are empty.
func sweep(parent int) {
	for _, name := range foldersIn(parent) {
		if len(name) <= len(leafPrefix) || name[:len(leafPrefix)] != leafPrefix {
			continue
		}
		fd, err := openBelow(parent, name)
		if err != nil {
			continue
		}
		l := leaf{fd: fd}
		if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil && !l.populated() {
			removeAll(parent, name)
		}
		unix.Close(fd)
	}
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

// members are the numbers of those in the leaf and below.
func (l *leaf) members() (list []int) {
	visit(l.fd, func(fd int) {
		list = append(list, numbers("/proc/self/fd/"+strconv.Itoa(fd)+"/cgroup.procs")...)
	})
	return list
}

// visit calls f with a cgroup's folder and those below it.
func visit(fd int, f func(fd int)) {
	f(fd)
	for _, name := range foldersIn(fd) {
		if below, err := openBelow(fd, name); err == nil {
			visit(below, f)
			unix.Close(below)
		}
	}
}

// has reports whether a process is in the leaf or below it now.
func (l *leaf) has(pid int) bool {
	if l.inside == "" {
		l.inside = l.pathInside()
	}
	var buf [16 << 10]byte
	path := cgroupPath(read(of(pid, "cgroup"), buf[:]))
	n := len(l.inside)
	return n > 0 && len(path) >= n && path[:n] == l.inside && (len(path) == n || path[n] == '/')
}

// pathInside is the leaf's path as /proc/PID/cgroup shows it to us: our own, at the
// time when the leaf was made, and the name. A guard doesn't know it, and reads it from
// the link of its descriptor.
func (l *leaf) pathInside() string {
	var buf [4096]byte
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(l.fd), buf[:])
	if err != nil {
		return ""
	}
	return insideOf(string(buf[:n]), readAll("/proc/self/mountinfo", longestMountinfo))
}

// insideOf turns a folder below a mount of cgroup v2 into the cgroup's path.
func insideOf(folder string, mountinfo []byte) (path string) {
	for line := range bytes.Lines(mountinfo) {
		before, after, ok := bytes.Cut(line, []byte(" - "))
		fields := bytes.Fields(before)
		if !ok || !bytes.HasPrefix(after, []byte("cgroup2 ")) || len(fields) < 5 {
			continue
		}
		if rest, ok := below(folder, unescape(fields[4])); ok {
			root := unescape(fields[3])
			if root == "/" {
				root = ""
			}
			path = root + rest
		}
	}
	return path
}

// signal sends sig to each member through a pidfd.
func (l *leaf) signal(sig syscall.Signal, skip func(pid int) bool) {
	for _, pid := range l.members() {
		if pid == 0 || skip(pid) { // 0: of another pid namespace
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

// leave moves the members to our own cgroup, where they would be without us.
func (l *leaf) leave() {
	if l.parent < 0 {
		return
	}
	to, err := unix.Openat(l.parent, "cgroup.procs", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(to)
	for range 100 { // somebody may fork meanwhile
		members := l.members()
		if len(members) == 0 {
			return
		}
		for _, pid := range members {
			unix.Write(to, []byte(strconv.Itoa(pid)))
		}
	}
}

// remove removes the folder, unless somebody is in it.
func (l *leaf) remove() {
	if l.fd >= 0 {
		unix.Close(l.fd)
	}
	if l.parent >= 0 {
		removeAll(l.parent, l.name)
		unix.Close(l.parent)
	}
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
