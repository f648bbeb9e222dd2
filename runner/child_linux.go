package runner

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is a command that was started.
type child struct {
	process *os.Process
	tree    tree
	tty     int // the controlling terminal, or -1
	chld    chan os.Signal
	started time.Time
	reaped  chan struct{} // lets the thread go that started it
}

// tree is what can be reached of a command: everything that started from it, or
// less. Its methods are called while the first process is not yet reaped.
type tree interface {
	signal(syscall.Signal)
	live() bool // whether something of it isn't dead; a zombie is
	close()
}

// noTerminal is the number of a terminal that isn't there.
const noTerminal = -1

// controllingTerminal opens /dev/tty, if there is one.
func controllingTerminal() int {
	fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return noTerminal
	}
	return fd
}

func startChild(c Command, env []string) (process, error) {
	ch, err := start(c, env, controllingTerminal())
	if err != nil {
		return nil, err
	}
	return ch, nil
}

// start runs c with env. With a terminal it stays in our group, else it leads one
// of its own. The terminal is closed by reap, or at once if the start fails.
func start(c Command, env []string, tty int) (*child, error) {
	ch := &child{tty: tty, chld: make(chan os.Signal, 1), reaped: make(chan struct{})}
	signal.Notify(ch.chld, syscall.SIGCHLD) // before the start, so that none is missed
	if err := ch.fork(c, env); err != nil {
		ch.letGo()
		return nil, err
	}
	ch.started = time.Now()
	ch.tree = newDescent(ch.process.Pid, tty == noTerminal)
	return ch, nil
}

// fork starts the command from a thread that lives as long as it: the kernel
// kills the command when that thread ends, which it else may do at any time
// (go.dev/issue/27505).
func (ch *child) fork(c Command, env []string) error {
	attr := &os.ProcAttr{
		Env:   env,
		Files: []*os.File{c.Stdin, c.Stdout, c.Stderr}, // nil: closed
		Sys:   &syscall.SysProcAttr{Setpgid: ch.tty == noTerminal, Pdeathsig: syscall.SIGKILL},
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var err error
		ch.process, err = os.StartProcess(c.Path, c.Args, attr)
		result <- err
		<-ch.reaped
	}()
	return <-result
}

func (ch *child) letGo() {
	signal.Stop(ch.chld)
	close(ch.reaped)
	if ch.tty != noTerminal {
		unix.Close(ch.tty)
	}
}

func (ch *child) containment() string {
	if ch.tty == noTerminal {
		return "process group and descendants"
	}
	return "descendants"
}

func (ch *child) changed() <-chan os.Signal { return ch.chld }

// ended looks without waiting and without reaping: a blocking waitid holds up
// every other goroutine for some ms where there is one processor, and until it is
// reaped the number of the process, and of its group, names no other.
func (ch *child) ended() bool {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, ch.process.Pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			// ECHILD: somebody else has reaped it.
			return err == unix.ECHILD || err == nil && info.Signo != 0
		}
	}
}

// pass hands on what was sent to flockd alone. What the terminal sent to its
// foreground group has reached a command in that group too.
func (ch *child) pass(sig syscall.Signal) {
	if ch.tty == noTerminal {
		group{ch.process.Pid}.signal(sig)
		return
	}
	switch sig {
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH:
		if foreground, err := unix.IoctlGetInt(ch.tty, unix.TIOCGPGRP); err == nil && foreground == unix.Getpgrp() {
			return
		}
	}
	ch.process.Signal(sig)
}

func (ch *child) signal(sig syscall.Signal) { ch.tree.signal(sig) }

func (ch *child) live() bool { return ch.tree.live() }

func (ch *child) reap() Exit {
	e := Exit{Started: ch.started, Ended: time.Now()}
	ch.tree.close()
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
