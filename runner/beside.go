package runner

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"flockd/backends"
	"flockd/runner/tree"
)

// Beside is what is started once the command runs, inside its containment, with what Run adds to
// its environment. Neither waits for the other: it is killed when the command is told to end or
// has ended, with all that it has started and that can be told from what the command has.
type Beside struct {
	Command Command
	Limit   time.Duration   // it is killed after so long; what it leaves before that is the command's
	After   <-chan struct{} // it isn't started before that is closed; nil: at once
	OnEnd   func(error)     // called with why it failed, or was killed at its limit; from a goroutine of its own; may be nil
}

// companion runs a Beside.
type companion struct {
	*Beside
	env  []string
	tree *tree.Tree // the command's
	log  *slog.Logger
	off  chan struct{} // closed: it has to go
	over bool          // off is
	gone chan struct{} // closed when nothing of it is left
	left bool          // that was heard
}

// accompany starts it; nil: there is none.
func (r *run) accompany(lease *backends.Lease) *companion {
	b := r.o.Beside
	if b == nil {
		return nil
	}
	c := &companion{
		Beside: b, env: environ(r.o, b.Command, lease), tree: r.tree, log: r.o.Log.With("key", r.o.Request.Key),
		off: make(chan struct{}), gone: make(chan struct{}),
	}
	go c.run()
	return c
}

// end has it killed. It waits for nothing.
func (c *companion) end() {
	if c != nil && !c.over {
		c.over = true
		close(c.off)
	}
}

// ended is closed when nothing of it is left; nil where that has been heard, or is not waited
// for.
func (c *companion) ended() <-chan struct{} {
	if c == nil || !c.over || c.left {
		return nil
	}
	return c.gone
}

// heard takes note that nothing of it is left.
func (c *companion) heard() { c.left = true }

// lives reports whether something of it may be left.
func (c *companion) lives() bool { return c != nil && !c.left }

func (c *companion) run() {
	defer close(c.gone)
	if c.After != nil {
		select {
		case <-c.After:
		case <-c.off:
			return
		}
	}
	h, err := c.start()
	if err == nil {
		defer h.close()
		c.log.Debug("a hook runs beside the command", "pid", h.pid)
		err = h.wait(c.Limit, c.off)
	}
	if err != nil && c.OnEnd != nil {
		c.OnEnd(err)
	}
	<-c.off
	if h != nil {
		h.kill()
	}
}

func (c *companion) start() (*hook, error) {
	family := c.tree.Family()
	return startHook(c.Command, c.env, c.tree.StartBeside, func(int) { family.Reaped() })
}

// RunAside runs a command that belongs to no hold, until nothing is left of it and what it has
// started, and returns why it failed, or nil. After limit all that is killed. It may be called
// while others run.
func RunAside(c Command, env []string, limit time.Duration) error {
	h, err := startHook(c, env, tree.StartAside, tree.ForgetAside)
	if err != nil {
		return err
	}
	defer h.close()
	h.tough = tough // no hold depends on its end
	began := time.Now()
	err = h.wait(limit, nil)
	if left := h.outlived(limit - time.Since(began)); left && err == nil {
		err = fmt.Errorf("what it left was killed after %v", limit)
	}
	return err
}

// hook is a process of ours that leads a tree of its own, and is killed after some time.
type hook struct {
	pid    int
	tree   *tree.Tree
	chld   chan os.Signal
	forget func(pid int) // called when it was reaped
	reaped bool
	status syscall.WaitStatus // once reaped
	tough  time.Duration      // so long after a KILL what can't be killed is let go; 0: never
}

func startHook(c Command, env []string, in func(*syscall.SysProcAttr, func() (int, error)) (*tree.Tree, error), forget func(int)) (*hook, error) {
	h := &hook{chld: make(chan os.Signal, 1), forget: forget}
	signal.Notify(h.chld, syscall.SIGCHLD) // before the start, so that none is missed
	var process *os.Process
	sys := &syscall.SysProcAttr{}
	var err error
	h.tree, err = in(sys, func() (pid int, err error) {
		if process, err = c.exec(env, sys); err != nil {
			return 0, err
		}
		return process.Pid, nil
	})
	if err != nil {
		signal.Stop(h.chld)
		return nil, err
	}
	h.pid = process.Pid
	process.Release() // it is reaped by its number, so that this means nobody else before
	return h, nil
}

// wait returns how it ended, by itself or killed after limit; nil as well where it was killed
// since off was closed.
func (h *hook) wait(limit time.Duration, off <-chan struct{}) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for !h.ended() {
		select {
		case <-h.chld:
		case <-timer.C:
			h.kill()
			return fmt.Errorf("killed after %v", limit)
		case <-off:
			h.kill()
			return nil
		}
	}
	switch {
	case h.status.Signaled():
		return fmt.Errorf("ended by signal %d", h.status.Signal())
	case h.status.ExitStatus() != 0:
		return fmt.Errorf("exited with %d", h.status.ExitStatus())
	}
	return nil
}

// ended reaps it if it has ended.
func (h *hook) ended() bool {
	for !h.reaped {
		pid, err := syscall.Wait4(h.pid, &h.status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case pid == h.pid, err != nil: // ECHILD: somebody else has
			h.reaped = true
			h.forget(h.pid)
		default:
			return false
		}
	}
	return true
}

// outlived waits for those who outlive it, and reports whether they had to be killed after limit.
func (h *hook) outlived(limit time.Duration) bool {
	end := time.Now().Add(limit)
	for look := lookMin; h.tree.Live(); look = min(2*look, lookMax) {
		if !time.Now().Before(end) {
			h.kill()
			return true
		}
		time.Sleep(min(look, time.Until(end)))
	}
	return false
}

// kill kills it with its tree, again with each look until nothing is left: what it was just
// forking may have escaped the first time.
func (h *hook) kill() {
	began := time.Now()
	for look := lookMin; ; look = min(2*look, lookMax) {
		h.tree.Signal(syscall.SIGKILL)
		if !h.reaped { // so the number is its own, and its group's
			syscall.Kill(h.pid, syscall.SIGKILL)
			if h.tree.Leads {
				syscall.Kill(-h.pid, syscall.SIGKILL) // once it is dead the tree doesn't know it by that
			}
		}
		if h.ended() && !h.tree.Live() || h.tough != 0 && time.Since(began) > h.tough {
			return
		}
		select {
		case <-h.chld:
		case <-time.After(look):
		}
	}
}

// close lets go of it.
func (h *hook) close() {
	signal.Stop(h.chld)
	h.tree.Close()
}
