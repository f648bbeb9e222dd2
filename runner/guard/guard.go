//go:build unix

package guard

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"flockd/runner/tree"
	"flockd/runner/tty"
)

// A process under this name never becomes more than a guard.
func init() {
	if len(os.Args) > 0 && os.Args[0] == Name {
		os.Exit(run())
	}
}

func run() int {
	settle()
	unix.Chdir("/")
	w := &watch{host: newHost(), tree: tree.Known(tree.Identity{}, folderFD), orders: Orders{Kill: Never}}
	return w.run()
}

const (
	// A look for what is left of a tree costs some ms on a busy host, so that each
	// takes twice as long to come as the one before. Who isn't gone by the time of the rare
	// ones can't be killed, or not now.
	lookMin = time.Millisecond
	lookMax = time.Second
)

// watch is the work of a guard.
type watch struct {
	host   *host
	tree   *tree.Tree
	orders Orders
	legacy []byte
	tty    *tty.Terminal // nil: there is none
	look   time.Duration // until the next look at what is left
	unread []byte        // of the pipe
	dead   bool          // flockd is
}

// run returns the guard's exit code.
func (w *watch) run() int {
	for {
		switch {
		case !w.due():
			w.look = lookMin
			w.await(Never, w.orders.Kill != Never)
		case !w.cleared():
			w.await(w.look, false)
			w.look = min(2*w.look, lookMax)
		case w.dead:
			w.tty.GiveBack()
			w.giveBack()
			return 0
		default: // flockd is late: it may go on, and start what is to be killed again
			w.tty.GiveBack()
			w.await(Never, false)
		}
	}
}

// await listens for at most d, or until the deadline.
func (w *watch) await(d time.Duration, deadline bool) {
	fd := ordersFD
	if w.dead {
		fd = -1
	}
	// All of it is heard before anything is judged by it: a guard that was stopped has
	// old deadlines to read.
	for w.host.wait(fd, d, deadline, w.orders) && !w.dead {
		w.hear()
		d, deadline = 0, false
	}
}

// due reports whether the tree has to go.
func (w *watch) due() bool {
	return w.dead || w.orders.Kill != Never && w.host.now(w.orders) >= w.orders.Kill
}

// hear reads what flockd has to say, and follows it.
func (w *watch) hear() {
	var buf [16 << 10]byte
	n, err := unix.Read(ordersFD, buf[:])
	switch {
	case err == unix.EINTR || err == unix.EAGAIN:
		return
	case err != nil || n == 0:
		w.dead = true
		return
	}
	w.unread = append(w.unread, buf[:n]...)
	rest := w.unread
	for {
		kind, body, after, ok := cut(rest)
		if !ok {
			break
		}
		w.follow(kind, body)
		rest = after
	}
	w.unread = w.unread[:copy(w.unread, rest)] // in its place: nothing is collected here
}

func (w *watch) follow(kind byte, body []byte) {
	switch kind {
	case kindOrders:
		if o, err := decode(body, w.orders); err == nil {
			w.orders = o
			if o.Over {
				w.tree.Abandon()
			} else {
				w.tree.Update(o.Tree)
			}
		}
	case kindLegacy:
		w.legacy = append([]byte(nil), body...)
	case kindTerminal:
		w.tty = tty.Decode(body, terminalFD)
	}
}

// cleared kills the tree, and reports whether nobody is left of it.
func (w *watch) cleared() bool {
	w.tree.Signal(syscall.SIGKILL)
	return !w.tree.Live()
}

// giveBack carries out the legacy. A try that fails may have found no memory or no
// process for itself; the legacy itself asks the store again.
func (w *watch) giveBack() {
	w.tree.Close()
	w.tty.Close() // whoever waits for its end is not to wait for the store
	for try := time.Duration(0); try < 3 && len(w.legacy) > 0; try++ {
		w.host.wait(-1, try*time.Second, false, w.orders)
		if w.host.execute(w.legacy) {
			return
		}
	}
}

// milliseconds is d for poll, rounded up; -1: no limit.
func milliseconds(d time.Duration) int {
	if d == Never {
		return -1
	}
	return int((max(d, 0) + time.Millisecond - 1) / time.Millisecond)
}
