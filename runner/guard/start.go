//go:build unix

package guard

import (
	"errors"
	"os"
	"syscall"
	"time"

	"flockd/runner/tty"
)

// Guard is flockd's end of one.
type Guard struct {
	Process *os.Process // nil: it isn't started
	pipe    *os.File
	hears   *os.File // its end of the pipe, until it is started
	tty     *tty.Terminal
}

// heard bounds how long a guard may let what it is told lie: one that is stopped is
// as good as none. It is far longer than a busy host keeps it from running.
const heard = time.Second

// New prepares a guard with its first orders and, where there is one, its legacy: what is
// given to this program, started under the name GiveBackName, when flockd was killed. The
// terminal, which may be nil, it gives back when it has killed the tree.
// What a guard has to know lies in its pipe before it lives: it may be alone at once.
func New(o Orders, legacy []byte, t *tty.Terminal) (*Guard, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	g := &Guard{pipe: write, hears: read, tty: t}
	if len(legacy) > 0 {
		err = g.write(message(kindLegacy, legacy)) // into the pipe, of 64 KiB: more is no key, note and URL
	}
	if err == nil && t != nil {
		err = g.write(message(kindTerminal, t.Encode()))
	}
	if err == nil {
		err = g.Tell(o)
	}
	if err != nil {
		g.drop()
		return nil, err
	}
	return g, nil
}

// Start starts the guard over key's command. folder is the leaf's, or -1. Whoever
// calls keeps its own and the caller's descriptors from being inherited. After an error
// the guard is of no use.
func (g *Guard) Start(key string, folder int) (pid int, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		g.drop()
		return 0, err
	}
	defer null.Close()
	files := []uintptr{null.Fd(), null.Fd(), null.Fd(), g.hears.Fd(), null.Fd()}
	if folder >= 0 {
		files[folderFD] = uintptr(folder)
	}
	if fd := g.tty.FD(); fd >= 0 {
		files = append(files, uintptr(fd))
	}
	pid, err = syscall.ForkExec(Program(), []string{Name, key}, &syscall.ProcAttr{
		// One thread is enough, and the little that it allocates isn't worth collecting,
		// unless it waits for long for somebody who can't be killed.
		Env:   []string{"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=32MiB"},
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		err = &os.PathError{Op: "exec", Path: Program(), Err: err}
	} else {
		g.Process, err = os.FindProcess(pid) // our child: it is there
	}
	if err != nil {
		g.drop()
		return 0, err
	}
	g.hears.Close()
	return pid, nil
}

// Lend calls f with the descriptor through which the guard hears. Another process that has
// it may tell the guard as well: see Reach.
func (g *Guard) Lend(f func(fd uintptr)) error {
	raw, err := g.pipe.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(f)
}

// Reach is a guard whose pipe another process has lent. It can be told, and not ended.
func Reach(pipe *os.File) *Guard { return &Guard{pipe: pipe} }

// drop lets go of a guard that doesn't live.
func (g *Guard) drop() {
	g.hears.Close()
	g.pipe.Close()
}

var errStopped = errors.New("the guard is stopped")

// Tell replaces the guard's orders. An error says that it is no good any more.
func (g *Guard) Tell(o Orders) error {
	if g.Process != nil && Stopped(g.Process.Pid) {
		return errStopped
	}
	return g.write(message(kindOrders, o.encode()))
}

func (g *Guard) write(m []byte) error {
	g.pipe.SetWriteDeadline(time.Now().Add(heard))
	_, err := g.pipe.Write(m)
	return err
}

// End ends a guard that isn't needed any more, or doesn't listen. It is killed: there is
// nothing that it would have to do, and one that is only starting would take some ms for
// it.
func (g *Guard) End() {
	g.Process.Kill()
	g.pipe.Close()
}
