package tree

import (
	"bytes"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// read fills buf from the beginning of a file. What doesn't fit is left out.
func read(path string, buf []byte) []byte {
	fd, err := open(path, unix.O_RDONLY)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	return drain(fd, buf)
}

func drain(fd int, buf []byte) []byte {
	n := 0
	for n < len(buf) {
		got, err := unix.Read(fd, buf[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || got == 0 {
			break
		}
		n += got
	}
	return buf[:n]
}

// unopened counts the files that weren't opened since there was no descriptor for them: who reads
// nothing of a process can't tell whether it is of a tree.
var unopened atomic.Int64

func open(path string, flags int) (fd int, err error) {
	for {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC, 0)
		if err == unix.EMFILE || err == unix.ENFILE {
			unopened.Add(1)
		}
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// hasProc reports whether /proc is there, and its numbers are those of our own pid
// namespace. Without it nothing is known of other processes.
func hasProc() bool {
	var buf [16]byte
	n, err := unix.Readlink("/proc/self", buf[:])
	return err == nil && string(buf[:n]) == strconv.Itoa(unix.Getpid())
}

func of(pid int, file string) string { return "/proc/" + strconv.Itoa(pid) + "/" + file }

// stat is what /proc/PID/stat says of a process.
type stat struct {
	name          string
	state         byte
	parent, group int
	foreground    int    // the group in the foreground of its terminal; -1: it has none
	born          uint64 // clock ticks since boot
}

func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' }

// Stopped reports whether a process is stopped, by a signal or a debugger, for all that is
// known.
func Stopped(pid int) bool {
	s, ok := statOf(pid)
	return !ok || s.state == 'T' || s.state == 't'
}

// Lineage is this process, its parent, and so on, as far as they are in a group.
func Lineage(group int) (pids []int32) {
	for pid := unix.Getpid(); pid > 0; {
		s, ok := statOf(pid)
		if !ok || s.group != group {
			break
		}
		pids = append(pids, int32(pid))
		pid = s.parent
	}
	return pids
}

// Group are the processes of a group that aren't dead.
func Group(group int) (pids []int) {
	each("/proc", firstProcess, func(pid int) {
		if s, ok := statOf(pid); ok && s.group == group && !s.dead() {
			pids = append(pids, pid)
		}
	})
	return pids
}

// Opened reports whether one of a process's descriptors is as is says, by its number and
// what it was opened as.
func Opened(pid int, is func(fd int, path string) bool) (found bool) {
	var buf [64]byte
	each(of(pid, "fd"), 0, func(fd int) {
		n, err := unix.Readlink(of(pid, "fd/"+strconv.Itoa(fd)), buf[:])
		found = found || err == nil && is(fd, string(buf[:n]))
	})
	return found
}

// Zombie reports whether a process is known to be dead, and not yet reaped.
func Zombie(pid int) bool {
	s, ok := statOf(pid)
	return ok && s.dead()
}

// Foreground is the group in the foreground of a process's terminal; not ok: it has none, or
// that isn't known.
func Foreground(pid int) (group int, ok bool) {
	s, ok := statOf(pid)
	return s.foreground, ok && s.foreground > 0
}

// longestStat is enough for the first 22 fields, each a number of 20 digits.
const longestStat = 512

func statOf(pid int) (s stat, ok bool) {
	var buf [longestStat]byte
	return parseStat(read(of(pid, "stat"), buf[:]))
}

// parseStat begins behind the last parenthesis: a process may call itself
// anything, parentheses and spaces included.
func parseStat(text []byte) (s stat, ok bool) {
	first, last := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if first < 0 || last < first {
		return stat{}, false
	}
	fields := bytes.Fields(text[last+1:])
	const state, parent, group, foreground, born = 0, 1, 2, 5, 19 // fields 3, 4, 5, 8 and 22 of proc_pid_stat(5)
	if len(fields) <= born || len(fields[state]) != 1 {
		return stat{}, false
	}
	s.name = string(text[first+1 : last])
	s.state = fields[state][0]
	var err1, err2, err3, err4 error
	s.parent, err1 = strconv.Atoi(string(fields[parent]))
	s.group, err2 = strconv.Atoi(string(fields[group]))
	s.foreground, err3 = strconv.Atoi(string(fields[foreground]))
	s.born, err4 = strconv.ParseUint(string(fields[born]), 10, 64)
	return s, err1 == nil && err2 == nil && err3 == nil && err4 == nil
}

// exited reports whether the process is dead, with all its threads: a zombie or gone.
func exited(pidfd int) bool {
	for {
		fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		if err != unix.EINTR {
			return err == nil && n == 1
		}
	}
}

// childrenOf lists the children of every thread of pid.
func childrenOf(pid int) (children []int) {
	each(of(pid, "task"), 0, func(thread int) {
		children = append(children, numbers(of(pid, "task/"+strconv.Itoa(thread)+"/children"))...)
	})
	return children
}

// numbers reads a file of numbers: as many as there are.
func numbers(path string) (list []int) {
	fd, err := open(path, unix.O_RDONLY)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var buf [4096]byte
	n, any := 0, false
	for {
		text := drain(fd, buf[:])
		for _, c := range text {
			if '0' <= c && c <= '9' {
				n, any = 10*n+int(c-'0'), true
				continue
			}
			if any {
				list = append(list, n)
			}
			n, any = 0, false
		}
		if len(text) < len(buf) {
			break
		}
	}
	if any {
		list = append(list, n)
	}
	return list
}

// firstProcess is where the processes begin among the entries of /proc.
const firstProcess = 256

// each calls f with each entry of a folder that is a number, from an offset on. It
// reads one at a time: of a tree that forks faster than a batch is worked off, a
// batch shows nobody who yet lives. It reports whether the folder could be read.
func each(folder string, offset int64, f func(n int)) bool {
	fd, err := open(folder, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if _, err := unix.Seek(fd, offset, 0); err != nil {
		return false
	}
	// An entry is 19 bytes and a name, rounded up to 8: of a number, 32 at most. The
	// buffer is aligned, or Getdents would use less of it.
	var words [4]uint64
	buf := unsafe.Slice((*byte)(unsafe.Pointer(&words)), unsafe.Sizeof(words))
	for {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return err == nil
		}
		const name = 19
		for entry := buf[:n]; len(entry) > name; {
			size := int(entry[16]) | int(entry[17])<<8
			if number, ok := leadingNumber(entry[name:min(size, len(entry))]); ok {
				f(number)
			}
			entry = entry[min(size, len(entry)):]
		}
	}
}

// leadingNumber reads a name that ends with a zero byte.
func leadingNumber(name []byte) (n int, ok bool) {
	for i, c := range name {
		switch {
		case c == 0:
			return n, i > 0
		case c < '0' || c > '9':
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}
