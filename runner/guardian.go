package runner

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"flockd/backends"
	"flockd/runner/guard"
	"flockd/runner/tree"
	"flockd/runner/tty"
)

const (
	// The wait before a guard is replaced grows with each that ends at once: a host
	// without memory isn't made to fork for nothing.
	replaceMin = time.Millisecond
	replaceMax = time.Second
	// parting is how long a guard that was let go is waited for, so that no zombie of
	// ours stays behind where the first process reaps slowly.
	parting = 100 * time.Millisecond
)

// guardian keeps a guard over a command. Nobody waits for that guard to be at work:
// what it is told lies in its pipe, before the command starts.
type guardian struct {
	key    string
	legacy []byte
	log    *slog.Logger

	heard

	mu     sync.Mutex
	orders guard.Orders
	news   chan struct{}        // the orders have changed; holds one
	yields chan (chan struct{}) // somebody else tells the guard, until that is closed

	tree    *tree.Tree
	tty     *tty.Terminal // to be given back
	guard   *guard.Guard  // nil: none could be started
	missing bool          // and that has been said
	gone    chan struct{} // closed when it has ended
	end     chan struct{} // closed when there is no more to guard
	ended   chan struct{} // closed when nothing is left to do
}

// newGuardian prepares a guard over key's command. legacy: see Options.
func newGuardian(key string, clock backends.Clock, legacy []byte, log *slog.Logger) *guardian {
	return &guardian{
		key: key, legacy: legacy, log: log, heard: heard{clock: clockOf(clock), told: guard.Never}, yields: make(chan (chan struct{})),
		orders: guard.Orders{Kill: guard.Never, Monotonic: clock == backends.Monotonic},
		news:   make(chan struct{}, 1), end: make(chan struct{}), ended: make(chan struct{}),
	}
}

// deadline sets when the guard has to kill the tree, as a reading of the lease's clock.
func (g *guardian) deadline(kill time.Duration) {
	g.post(func(o *guard.Orders) { o.Kill = kill })
}

// started says by what the tree is known, once its first process runs.
func (g *guardian) started(i tree.Identity) {
	g.post(func(o *guard.Orders) { o.Tree = i })
}

// over says that nobody is left whom the guard is to kill.
func (g *guardian) over() {
	g.post(func(o *guard.Orders) { o.Over = true })
}

func (g *guardian) post(change func(*guard.Orders)) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	change(&g.orders)
	select {
	case g.news <- struct{}{}:
	default: // they are told with what is there already
	}
}

// watch starts the guard of a tree that isn't started yet, and then keeps it.
func (g *guardian) watch(t *tree.Tree, terminal *tty.Terminal) {
	if g == nil {
		return
	}
	g.tree, g.tty = t, terminal
	g.started(t.Identity)
	g.start()
	go g.keep()
}

func (g *guardian) latest() guard.Orders {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.orders
}

// late reports whether the guard may have killed the command: see heard.
func (g *guardian) late() bool { return g != nil && g.heard.late() }

// yield has the guardian stand still, so that another may tell the guard, until back is
// called.
func (g *guardian) yield() (back func()) {
	if g == nil {
		return func() {}
	}
	c := make(chan struct{})
	g.yields <- c
	return func() { close(c) }
}

// noPipe is no descriptor, as syscall.ProcAttr has it.
const noPipe = ^uintptr(0)

// lend calls f with the descriptor through which the guard hears, or noPipe, and returns
// the guard's orders. The guardian stands still.
func (g *guardian) lend(f func(fd uintptr) error) (_ guard.Orders, guarded bool, err error) {
	if g == nil || g.guard == nil {
		return guard.Orders{Kill: guard.Never}, false, f(noPipe)
	}
	unlent := g.guard.Lend(func(fd uintptr) { err = f(fd) })
	return g.latest(), true, errors.Join(unlent, err)
}

// reported takes over what a stand-in has told the guard.
func (g *guardian) reported(said report) {
	if g == nil || said.Kill == 0 {
		return
	}
	g.mu.Lock()
	g.orders.Kill = said.Kill
	g.mu.Unlock()
	g.took(said.Kill, said.Acted)
}

// start starts a guard with the latest orders.
func (g *guardian) start() {
	g.gone = make(chan struct{})
	family, orders := g.tree.Family(), g.latest()
	made, err := guard.New(orders, g.legacy, g.tty)
	if err == nil {
		err = family.Start(func() (pid int, err error) { return made.Start(g.key, g.tree.Folder()) })
	}
	if err != nil {
		g.guard = nil
		close(g.gone)
		g.miss(err)
		return
	}
	g.goesBy(orders.Kill)
	if g.guard = made; g.missing {
		g.missing = false
		g.log.Info("there is a guard again", "key", g.key)
	}
	go func(gone chan<- struct{}) {
		made.Process.Wait()
		family.Forget(made.Process.Pid)
		close(gone)
	}(g.gone)
}

// miss says once that there is no guard.
func (g *guardian) miss(err error) {
	if !g.missing {
		g.missing = true
		g.log.Warn("there is no guard: if flockd is killed or stopped, the command may run on", "key", g.key, "err", err)
	}
}

// keep tells the guard what is new, and replaces it when it has ended.
func (g *guardian) keep() {
	defer close(g.ended)
	began := time.Now()
	for pause := replaceMin; ; {
		select {
		case <-g.news:
			g.tell()
		case back := <-g.yields:
			<-back
		case <-g.gone:
			level := slog.LevelDebug // it ends as soon as it is started, and that has been said
			if time.Since(began) > replaceMax || pause == replaceMin {
				pause, level = replaceMin, slog.LevelWarn
			}
			if g.guard != nil {
				g.log.Log(context.Background(), level, "the guard has ended, or was stopped: starting another", "key", g.key)
				g.guard.End()
				g.goesBy(guard.Never) // who is dead kills nobody any more
			}
			if !g.waits(pause) {
				return
			}
			pause = min(2*pause, replaceMax)
			began = time.Now()
			g.start()
		case <-g.end:
			g.part()
			return
		}
	}
}

// waits reports whether there is yet something to guard after d.
func (g *guardian) waits(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-g.end:
		return false
	}
}

func (g *guardian) tell() {
	if g.guard == nil {
		return
	}
	orders := g.latest()
	if g.guard.Tell(orders) != nil {
		g.guard.End() // it is dead, or stopped: its end comes through gone
	}
	g.goesBy(orders.Kill)
}

// part lets the guard go.
func (g *guardian) part() {
	if g.guard == nil {
		return
	}
	g.guard.End()
	select {
	case <-g.gone:
	case <-time.After(parting):
	}
}

// dismiss says that there is no more to guard, and waits for the guard's end.
func (g *guardian) dismiss() {
	if g == nil || g.tree == nil {
		return
	}
	close(g.end)
	<-g.ended
}
