package tree

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// bornWithin is far longer than a start takes.
const bornWithin = 20 * time.Millisecond

// goOn has a child of ours go on that a terminal stops (Ctrl-Z) before it is the program that
// it is to be: until then our thread waits for it, and the runtime for that. It looks for
// one until born is called, which reports whether there was one.
func goOn() (born func() (stopped bool)) {
	var mu sync.Mutex // nobody is made to go on after born
	over, any := false, false
	since := ticks()
	var look func()
	look = func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		for _, pid := range childrenOf(unix.Getpid()) {
			if unborn(pid, since) && Stopped(pid) {
				any = true
				unix.Kill(pid, unix.SIGCONT)
			}
		}
		time.AfterFunc(bornWithin, look)
	}
	first := time.AfterFunc(bornWithin, look)
	return func() bool {
		first.Stop()
		mu.Lock()
		defer mu.Unlock()
		over = true
		return any
	}
}

// unborn reports whether a child hasn't become another program yet, and isn't an older one
// that never will: a flockd inside this one.
func unborn(pid int, since uint64) bool {
	child, ok := statOf(pid)
	us, known := statOf(unix.Getpid())
	return ok && known && child.name == us.name && child.born >= since
}

// ticks is the time since boot as /proc has it, in hundredths of a second on nearly all
// processors; on the others nobody is made to go on.
func ticks() uint64 {
	const each = 10 * time.Millisecond
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return uint64(time.Duration(ts.Nano()) / each)
}
