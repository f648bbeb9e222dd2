package tree

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// bornWithin is far longer than a start takes.
const bornWithin = 20 * time.Millisecond

// goOn has a child of ours go on that a terminal stops (Ctrl-Z) before it is the program that
// it is to be: until then our thread waits for it, and the runtime for that. It looks for
// one until born is called, which reports whether there was one.
func goOn() (born func() (stopped bool)) {
	var over, any atomic.Bool
	var look func()
	look = func() {
		if over.Load() {
			return
		}
		for _, pid := range childrenOf(unix.Getpid()) {
			if unborn(pid) && Stopped(pid) {
				any.Store(true)
				unix.Kill(pid, unix.SIGCONT)
			}
		}
		time.AfterFunc(bornWithin, look)
	}
	first := time.AfterFunc(bornWithin, look)
	return func() bool {
		over.Store(true)
		first.Stop()
		return any.Load()
	}
}

// unborn reports whether a child hasn't become another program yet.
func unborn(pid int) bool {
	child, ok := statOf(pid)
	us, known := statOf(unix.Getpid())
	return ok && known && child.name == us.name
}
