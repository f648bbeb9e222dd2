package runner

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"flockd/runner/guard"
)

const (
	// readyFor is how long a shell waits after Ctrl-Z, at most, for the stand-in to renew. With
	// a store at hand that takes 20 to 30 ms.
	readyFor = time.Second
	// reportFor is how long a stand-in may take, at most, to end. The guard knows what it
	// has renewed: only the result is the worse for one that is killed.
	reportFor = 5 * time.Second
)

// suspend stops flockd with its command, since a shell waits for both, and returns when
// it goes on. A stand-in renews the lease meanwhile. did: the command hasn't gone on before
// that. woken: the stand-in has ended the stop, for a reason of its own, and nobody has
// asked for the command to go on.
func (r *run) suspend(k *keeper, p process, sig syscall.Signal) (did, woken bool) {
	s, err := r.relieve(k, p)
	if err != nil && k != nil && r.o.OnUnkept != nil {
		r.o.OnUnkept(err)
	}
	if did = p.halted(); did {
		stopSelf(sig)
	}
	return did, s.end()
}

// relief is a stand-in at work, as that flockd sees it. nil: there is none.
type relief struct {
	guardian *guardian
	back     func(report) // has the keeper go on, which stands still until then
	open     func()       // and the guardian

	conn    *os.File
	reports *bufio.Reader // a line each
	process *os.Process
	forget  func()
}

// relieve starts a stand-in for k, and waits for it to renew once. The keeper and the
// guardian stand still until the stand-in's end. Without a keeper it is there to see the
// command go on.
func (r *run) relieve(k *keeper, p process) (*relief, error) {
	s := &relief{guardian: r.guard, back: func(report) {}, open: r.guard.yield()}
	d := duty{Flockd: os.Getpid(), Command: p.number(), Clock: r.o.Backend.Traits().Clock}
	if k != nil {
		s.back = k.yield()
		t := k.read()
		d.Kept, d.Lease, d.TTL, d.Timing, d.Grace, d.Sent = r.o.Legacy != nil, k.lease, t.ttl, t.timing, k.grace, t.sent
		d.Warned = r.o.OnLost == Warn
	}
	if d.Kept {
		d.Legacy = r.o.Legacy(k.lease)
	}
	if err := s.start(r, d); err != nil {
		s.goOn(report{})
		return nil, err
	}
	if d.Kept {
		s.conn.SetReadDeadline(time.Now().Add(readyFor))
		if _, err := s.reports.ReadBytes('\n'); err == io.EOF {
			s.end()
			return nil, errors.New("the stand-in has ended")
		}
	}
	return s, nil
}

// start starts the stand-in and tells it its duty.
func (s *relief) start(r *run, d duty) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	defer unix.Close(pair[1])
	s.conn = os.NewFile(uintptr(pair[0]), "stand-in")
	s.reports = bufio.NewReader(s.conn)
	d.Orders, d.Guarded, err = s.guardian.lend(func(pipe uintptr) error { return s.fork(r, uintptr(pair[1]), pipe) })
	if err == nil {
		s.conn.SetWriteDeadline(time.Now().Add(readyFor))
		err = json.NewEncoder(s.conn).Encode(d)
	}
	if err != nil {
		s.fire()
	}
	return err
}

// fork starts the process, in a session of its own: it is deaf to the terminal.
func (s *relief) fork(r *run, conn, pipe uintptr) error {
	family := r.tree.Family()
	return family.Start(func() (pid int, err error) {
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return 0, err
		}
		defer null.Close()
		pid, err = syscall.ForkExec(guard.Program(), []string{StandInName, r.o.Request.Key}, &syscall.ProcAttr{
			Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), dutyFD: conn, pipeFD: pipe},
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
		if err != nil {
			return 0, &os.PathError{Op: "exec", Path: guard.Program(), Err: err}
		}
		s.forget = func() { family.Forget(pid) }
		s.process, err = os.FindProcess(pid)
		return pid, err
	})
}

// fire lets go of a stand-in that knows no duty.
func (s *relief) fire() {
	s.conn.Close()
	if s.process != nil {
		s.process.Kill()
		s.process.Wait()
		s.forget()
	}
}

// end ends the stand-in's work and goes on with what it has reported.
func (s *relief) end() (woken bool) {
	if s == nil {
		return false
	}
	s.hush()
	if guard.Stopped(s.process.Pid) {
		s.process.Kill() // it won't end by itself
	}
	late := time.AfterFunc(reportFor, func() { s.process.Kill() }) // the guard is to hear one voice
	s.process.Wait()
	late.Stop()
	s.forget()
	said := s.said()
	s.conn.Close()
	s.goOn(said)
	return said.Woken
}

// hush ends what is said to the stand-in, and so its work.
func (s *relief) hush() {
	if raw, err := s.conn.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_WR) })
	}
}

// said is the last report of a stand-in that has ended; zero: it was killed.
func (s *relief) said() (last report) {
	s.conn.SetReadDeadline(time.Time{})
	for {
		text, err := s.reports.ReadBytes('\n')
		if err != nil || json.Unmarshal(text, &last) != nil {
			return last
		}
	}
}

func (s *relief) goOn(said report) {
	s.guardian.reported(said)
	s.open()
	s.back(said)
}
