package tree

import (
	"bytes"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// markBase is above any limit that somebody sets, and leaves 61 bits to chance.
const markBase = 1 << 62

// rlimitLocks is RLIMIT_LOCKS, the same number on every architecture.
const rlimitLocks = 10

// newLimit draws a mark; 0: this process may not set one.
func newLimit() uint64 {
	var now unix.Rlimit
	if unix.Getrlimit(rlimitLocks, &now) != nil || now.Max != unix.RLIM_INFINITY {
		return 0
	}
	var random [8]byte
	if n, err := unix.Getrandom(random[:], 0); err != nil || n != len(random) {
		return 0
	}
	const bits = 61
	return markBase + *(*uint64)(unsafe.Pointer(&random))>>(64-bits)
}

// limited runs f, which starts a process, with limit as the mark that it inherits.
// 0 is for a process that belongs to no tree: it inherits no mark of ours either.
func limited(limit uint64, f func() error) error {
	var before unix.Rlimit
	if unix.Getrlimit(rlimitLocks, &before) != nil {
		return f()
	}
	during := unix.Rlimit{Cur: before.Max, Max: before.Max}
	if limit != 0 {
		during.Cur = limit
	}
	if unix.Setrlimit(rlimitLocks, &during) == nil {
		defer unix.Setrlimit(rlimitLocks, &before)
	}
	return f()
}

// marked reports whether a process bears a mark of the tree.
func (i Identity) marked(pid int) bool {
	return i.Limit != 0 && limitOf(pid) == i.Limit || i.ID != "" && environHas(pid, i.ID)
}

// limitOf is the soft RLIMIT_LOCKS of a process, of a zombie too; 0: unlimited, or
// it can't be read.
func limitOf(pid int) uint64 {
	var buf [2048]byte
	_, line, ok := bytes.Cut(read(of(pid, "limits"), buf[:]), []byte("\nMax file locks"))
	if !ok {
		return 0
	}
	line = bytes.TrimLeft(line, " ")
	end := bytes.IndexByte(line, ' ')
	if end < 0 {
		return 0
	}
	n, err := strconv.ParseUint(string(line[:end]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// environHas looks for text in the environment that a process started with.
func environHas(pid int, text string) bool {
	fd, err := open(of(pid, "environ"), unix.O_RDONLY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var buf [4096]byte
	kept := 0
	for {
		n := len(drain(fd, buf[kept:]))
		have := buf[:kept+n]
		if bytes.Contains(have, []byte(text)) {
			return true
		}
		if kept+n < len(buf) {
			return false
		}
		kept = copy(buf[:], have[len(have)-(len(text)-1):]) // it may begin here
	}
}
