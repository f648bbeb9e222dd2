//go:build unix

package guard

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// Guard is flockd's end of one.
type Guard struct {
	Process *os.Process
	pipe    *os.File
}

// heard bounds how long a guard may let what it is told lie: one that is stopped is
// as good as none. It is far longer than a busy host keeps it from running.
const heard = time.Second

// Start starts a guard over key's command with its first orders and, where there is
// one, its legacy: what is given to this program, started under the name GiveBackName,
// when flockd was killed. folder is the leaf's, or -1. Whoever calls keeps its own and
// the caller's descriptors from being inherited.
func Start(key string, folder int, o Orders, legacy []byte) (*Guard, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	files := []uintptr{null.Fd(), null.Fd(), null.Fd(), read.Fd(), null.Fd()}
	if folder >= 0 {
		files[folderFD] = uintptr(folder)
	}
	g := &Guard{pipe: write}
	// What it has to know lies in the pipe before it lives: it may be alone at once.
	if len(legacy) > 0 {
		err = g.write(message(kindLegacy, legacy))
	}
	if err = errors.Join(err, g.Tell(o)); err == nil {
		err = g.fork(key, files)
	}
	if err != nil {
		write.Close()
		return nil, err
	}
	return g, nil
}

func (g *Guard) fork(key string, files []uintptr) error {
	pid, err := syscall.ForkExec(self(), []string{Name, key}, &syscall.ProcAttr{
		// One thread is enough, and what it allocates is never worth collecting.
		Env:   []string{"GOMAXPROCS=1", "GOGC=off"},
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err == nil {
		g.Process, err = os.FindProcess(pid) // our child: it is there
	}
	return err
}

var errStopped = errors.New("the guard is stopped")

// Tell replaces the guard's orders. An error says that it is no good any more.
func (g *Guard) Tell(o Orders) error {
	if g.Process != nil && stopped(g.Process.Pid) {
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
