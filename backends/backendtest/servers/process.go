package servers

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// limit is how long a server may take to start or to end: it takes a second on an
// idle machine, and the rest is for a busy one.
const limit = 60 * time.Second

// Process is one server.
type Process struct {
	Addr string // where clients reach it: "127.0.0.1:port"
	Dir  string // its folder, kept over a restart

	t     testing.TB
	argv  []string
	env   []string // beside the test's own
	ready string   // what its log says when it serves
	attr  *syscall.SysProcAttr
	stop  syscall.Signal // what an administrator ends it with
	host  Host

	mu    sync.Mutex
	cmd   *exec.Cmd     // nil while it doesn't run
	ended chan struct{} // closed when cmd has ended
	log   *journal      // of cmd
}

// start runs a server for the first time. In argv, {addr}, {port} and {dir} stand for
// what the process was given.
func start(t testing.TB, addr, ready string, env []string, argv ...string) *Process {
	t.Helper()
	return prepare(t, addr, ready, env, argv...).serve()
}

// serve is the first start, without which the test can't go on.
func (p *Process) serve() *Process {
	p.t.Helper()
	p.Start()
	if p.t.Failed() {
		p.t.FailNow()
	}
	return p
}

// prepare is start without the start.
func prepare(t testing.TB, addr, ready string, env []string, argv ...string) *Process {
	return prepareIn(t, t.TempDir(), addr, ready, env, argv...)
}

// prepareIn is prepare in a folder of the caller's.
func prepareIn(t testing.TB, dir, addr, ready string, env []string, argv ...string) *Process {
	p := &Process{Addr: addr, Dir: dir, t: t, env: env, ready: ready, stop: syscall.SIGTERM}
	_, port, _ := net.SplitHostPort(addr)
	fill := strings.NewReplacer("{addr}", addr, "{port}", port, "{dir}", p.Dir)
	for _, arg := range argv {
		p.argv = append(p.argv, fill.Replace(arg))
	}
	t.Cleanup(func() {
		if p.running() {
			p.Kill()
		}
	})
	return p
}

// Start starts the server again, on its port and in its folder, and returns when it
// serves.
func (p *Process) Start() {
	p.t.Helper()
	p.Launch()
	p.Await()
}

// Launch is Start without waiting: for a server that can't serve yet, since it lacks
// its peers or has much to load.
func (p *Process) Launch() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		p.t.Errorf("%s: start: it runs", p)
		return
	}
	cmd, log := exec.Command(p.argv[0], p.argv[1:]...), newJournal(p.ready)
	cmd.Dir, cmd.SysProcAttr = p.Dir, p.attr
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = time.Second // a child of the server may still hold its output
	if err := p.host.start(cmd); err != nil {
		p.t.Errorf("%s: start: %v", p, err)
		return
	}
	ended := make(chan struct{})
	p.cmd, p.log, p.ended = cmd, log, ended
	go func() {
		cmd.Wait() // how it ended is for the log to say
		close(ended)
	}()
}

// Await returns when a launched server serves.
func (p *Process) Await() {
	p.t.Helper()
	cmd, log, ended := p.current()
	if cmd == nil {
		p.t.Errorf("%s: it wasn't started", p)
		return
	}
	select {
	case <-log.ready:
	case <-ended:
		p.t.Errorf("%s: it ended before it served: %v; its last lines:\n%s", p, cmd.ProcessState, log.tail())
	case <-time.After(limit):
		p.t.Errorf("%s: it didn't serve within %v; its last lines:\n%s", p, limit, log.tail())
	}
}

// Freeze stops the server as SIGSTOP does, its children too, and returns when all of it
// stands still. Connections stay, new ones are accepted by the kernel, and nothing is
// answered.
func (p *Process) Freeze() {
	p.t.Helper()
	p.mu.Lock() // or Thaw might overtake the stop, which then never comes
	defer p.mu.Unlock()
	if p.signal(syscall.SIGSTOP) {
		pid := p.cmd.Process.Pid
		err := awaitStop(pid)
		if err == nil {
			err = freezeChildren(pid)
		}
		if err != nil {
			p.t.Errorf("%s: freeze: %v", p, err)
		}
	}
}

// Thaw lets a frozen server go on: it then does what was asked meanwhile.
func (p *Process) Thaw() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		thawChildren(p.cmd.Process.Pid)
	}
	p.signal(syscall.SIGCONT)
}

// Kill ends the server with SIGKILL, frozen or not, and returns when it is gone.
func (p *Process) Kill() {
	p.t.Helper()
	p.end(syscall.SIGKILL)
}

// Stop ends the server with a signal, as an administrator would, and returns when it is
// gone: SIGTERM, but for PostgreSQL SIGINT, which doesn't wait for its clients to leave.
func (p *Process) Stop() {
	p.t.Helper()
	p.end(p.stop)
}

// PID is the number of the running server, 0 if it doesn't run.
func (p *Process) PID() int {
	cmd, _, _ := p.current()
	if cmd == nil {
		return 0
	}
	return cmd.Process.Pid
}

// Log is what the server has printed since its last start.
func (p *Process) Log() string {
	_, log, _ := p.current()
	if log == nil {
		return ""
	}
	return log.all()
}

func (p *Process) String() string { return fmt.Sprintf("%s at %s", p.argv[0], p.Addr) }

// signal tells whether it was sent. The caller holds p.mu.
func (p *Process) signal(sig syscall.Signal) bool {
	p.t.Helper()
	if p.cmd == nil {
		p.t.Errorf("%s: %v: it doesn't run", p, sig)
		return false
	}
	err := p.cmd.Process.Signal(sig)
	if err != nil {
		p.t.Errorf("%s: %v: %v; its last lines:\n%s", p, sig, err, p.log.tail())
	}
	return err == nil
}

// end doesn't mind a server that has ended by itself.
func (p *Process) end(sig syscall.Signal) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		p.t.Errorf("%s: %v: it doesn't run", p, sig)
		return
	}
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("%s: %v: %v", p, sig, err)
	}
	select {
	case <-p.ended:
		p.cmd = nil
	case <-time.After(limit):
		p.t.Errorf("%s: it didn't end within %v of %v; its last lines:\n%s", p, limit, sig, p.log.tail())
	}
}

func (p *Process) current() (*exec.Cmd, *journal, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd, p.log, p.ended
}

func (p *Process) running() bool {
	cmd, _, _ := p.current()
	return cmd != nil
}
