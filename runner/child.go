//go:build unix

package runner

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"flockd/runner/tree"
	"flockd/runner/tty"
)

// child is a command that was started.
type child struct {
	process *os.Process
	tree    *tree.Tree
	tty     *tty.Terminal  // nil: it leads a group of its own
	chld    chan os.Signal // CHLD, and what stops a job
	started time.Time
	end     time.Time     // when its end was first seen; zero: it runs
	reaped  chan struct{} // lets the thread go that started it
	exiting
}

func startChild(l launch) (process, error) {
	ch, err := start(l)
	if err != nil {
		return nil, err
	}
	return ch, nil
}

// start starts the command. With a terminal that stays in our group, else it leads one
// of its own. The tree and the terminal are the caller's.
func start(l launch) (*child, error) {
	ch := &child{tree: l.tree, tty: l.tty, chld: l.stops, reaped: make(chan struct{})}
	signal.Notify(ch.chld, syscall.SIGCHLD) // before the start, so that none is missed
	if err := ch.fork(l); err != nil {
		ch.letGo()
		return nil, err
	}
	if ch.tty != nil {
		ignoreOutput() // not before: the command would inherit that
	}
	if slices.Contains(pending(ch.chld), os.Signal(syscall.SIGTSTP)) || ch.tree.StoppedAtBirth() {
		ch.process.Signal(syscall.SIGTSTP) // it came before the command was there
	}
	l.guard.started(ch.tree.Identity)
	ch.started = time.Now()
	ch.expect(ch.process.Pid)
	return ch, nil
}

// begin starts the first process.
func (ch *child) begin(l launch, sys *syscall.SysProcAttr) error {
	return ch.tree.Start(sys, func() (pid int, err error) {
		if ch.process, err = l.exec(l.env, sys); err != nil {
			return 0, err
		}
		return ch.process.Pid, nil
	})
}

// exec starts a process for it. Nothing else of ours may be started meanwhile.
func (c Command) exec(env []string, sys *syscall.SysProcAttr) (*os.Process, error) {
	// As ProcAttr.Files they would have to be below the limit for new ones, and each gap be
	// closed.
	for _, fd := range c.Inherit {
		unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
		defer unix.CloseOnExec(fd)
	}
	files := []*os.File{c.Stdin, c.Stdout, c.Stderr} // nil: closed
	return os.StartProcess(c.Path, c.Args, &os.ProcAttr{Env: env, Files: files, Sys: sys})
}

func (ch *child) letGo() {
	signal.Stop(ch.chld)
	close(ch.reaped)
}

func (ch *child) number() int {
	if !ch.end.IsZero() {
		return 0
	}
	return ch.process.Pid
}

func (ch *child) halted() bool { return !ch.end.IsZero() || tree.Stopped(ch.process.Pid) }

func (ch *child) containment() string { return ch.tree.Containment() }

func (ch *child) changed() <-chan os.Signal { return ch.chld }

func (ch *child) ended() bool {
	ch.tree.Reap()
	if ch.end.IsZero() && ch.exited(ch.process.Pid) {
		ch.end = time.Now()
	}
	return !ch.end.IsZero()
}

// pass hands on what was sent to flockd alone: to the command, or to those that it left.
func (ch *child) pass(sig syscall.Signal) {
	switch {
	case !ch.end.IsZero():
		ch.tree.Signal(sig)
	case ch.tty == nil:
		syscall.Kill(-ch.process.Pid, sig) // not yet reaped, so the group's number is ours
	default:
		ch.process.Signal(sig)
	}
}

// typed reports whether a signal that came to us has to be taken for the terminal's, which
// has sent it to the whole of its foreground group.
func (ch *child) typed(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH, syscall.SIGTSTP:
		return ch.tty.Ours()
	}
	return false
}

func (ch *child) signal(sig syscall.Signal) { ch.tree.Signal(sig) }

func (ch *child) live() bool { return ch.end.IsZero() || ch.tree.Live() }

func (ch *child) outlived() bool { return ch.tree.Outlived() }

func (ch *child) members() []Process { return ch.tree.Members() }

func (ch *child) reap() Exit {
	e := Exit{Started: ch.started, Ended: ch.end}
	state, err := ch.process.Wait()
	ch.letGo()
	if err != nil {
		e.Code = 255 // somebody else reaped it: how it ended is not known
		return e
	}
	status := state.Sys().(syscall.WaitStatus)
	e.Code = status.ExitStatus()
	if status.Signaled() {
		e.Signal = status.Signal()
		e.Code = 128 + int(e.Signal)
	}
	return e
}
