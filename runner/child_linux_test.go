package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flockd/backends"
	"flockd/backends/mem"
	"flockd/runner/tree"
	"flockd/runner/tty"
)

// shell is a command that reports line by line what it does.
type shell struct {
	Command
	lines *bufio.Scanner
	out   *os.File // the writing end, closed once it runs
}

// sh makes one of a script. What the script writes is what the test waits for.
func sh(t *testing.T, script string) *shell {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() })
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { null.Close() })
	read.SetReadDeadline(time.Now().Add(20 * time.Second)) // a test that waits for what doesn't come fails
	return &shell{
		Command: Command{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ(), Stdin: null, Stdout: write, Stderr: os.Stderr},
		lines:   bufio.NewScanner(read), out: write,
	}
}

// line is what the command writes next.
func (s *shell) line(t *testing.T) string {
	t.Helper()
	if !s.lines.Scan() {
		t.Fatalf("the command says nothing: %v", s.lines.Err())
	}
	return s.lines.Text()
}

// silent fails unless every process that could write is gone.
func (s *shell) silent(t *testing.T) {
	t.Helper()
	for s.lines.Scan() {
		t.Logf("more: %s", s.lines.Text())
	}
	if err := s.lines.Err(); err != nil {
		t.Errorf("somebody of the tree lives on: %v", err)
	}
}

// planted is a tree for a command, without a guard.
func planted(t *testing.T) *tree.Tree {
	tr, _ := plant(backends.NewID(), nil, nil)
	t.Cleanup(tr.Close)
	return tr
}

// startShell starts it in a group of its own, whatever terminal the test has.
func startShell(t *testing.T, s *shell) *child {
	t.Helper()
	ch, err := start(launch{Command: s.Command, env: s.Env, tree: planted(t), stops: make(chan os.Signal, 8)})
	if err != nil {
		t.Fatal(err)
	}
	s.out.Close()
	return ch
}

// watchChild watches over it for real; stops and signals are the test's.
func watchChild(ch process, stops chan stop, signals chan os.Signal) <-chan Result {
	result := make(chan Result, 1)
	s := &supervision{process: ch, clock: clockOf(backends.Boottime), tick: tick, stops: stops, signals: signals, killAfter: 10 * sec, log: quiet}
	go func() { result <- s.result(s.watch(context.Background())) }()
	return result
}

func in(d time.Duration) stop { return stop{clockOf(backends.Boottime)() + d, errLease} }

func TestExitStatus(t *testing.T) {
	for _, tc := range []struct {
		script string
		want   Exit
	}{
		{"exit 0", Exit{}},
		{"exit 7", Exit{Code: 7}},
		{"exit 255", Exit{Code: 255}},
		{"kill -KILL $$", Exit{Code: 137, Signal: syscall.SIGKILL}},
		{"kill -USR1 $$", Exit{Code: 138, Signal: syscall.SIGUSR1}},
	} {
		before := time.Now()
		r := <-watchChild(startShell(t, sh(t, tc.script)), nil, nil)
		if e := r.Exit; e.Code != tc.want.Code || e.Signal != tc.want.Signal || e.Started.Before(before) || e.Ended.Before(e.Started) {
			t.Errorf("%s: %+v", tc.script, r.Exit)
		}
	}
}

func TestCommandsThatCannotStart(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{"/no/such/thing": fs.ErrNotExist, text: fs.ErrPermission, "/": fs.ErrPermission} {
		if _, err := start(launch{Command: Command{Path: path, Args: []string{"x"}}, tree: planted(t), stops: make(chan os.Signal, 8)}); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// When watch returns after a stop, nothing of the group is left.
func TestStopKillsTheGroup(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		kill         time.Duration
		code         int
	}{
		// A child that was just forked can lose a TERM to the handlers of its
		// shell, so it says itself that it is ready.
		{"takes TERM", `sh -c 'echo ready; exec sleep 300' & wait`, time.Minute, 143},
		{"handles TERM", `trap 'exit 7' TERM; sh -c 'echo ready; exec sleep 300' & wait`, time.Minute, 7},
		{"ignores TERM", `trap '' TERM; sh -c 'echo ready; exec sleep 300' & wait; sleep 300`, 300 * time.Millisecond, 137},
		{"its child ignores TERM", `(trap '' TERM; echo ready; sleep 300; sleep 300) & wait`, 300 * time.Millisecond, 143},
		{"has stopped itself", `echo ready; kill -STOP $$`, time.Minute, 143},
		{"is killed at once", `trap '' TERM; echo ready; sleep 300`, 0, 137},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := sh(t, tc.script)
			ch := startShell(t, s)
			pgid := ch.process.Pid
			stops := make(chan stop, 2)
			result := watchChild(ch, stops, nil)
			s.line(t)
			if strings.Contains(tc.script, "-STOP") {
				unix.Waitid(unix.P_PID, pgid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
			}
			stops <- in(tc.kill)
			r := <-result
			if r.Class != Lost || r.Exit.Code != tc.code {
				t.Errorf("got %+v", r)
			}
			s.silent(t)
		})
	}
}

// blocked gives the command a stdin from which nothing comes until it is closed.
// Scripts read it rather than sleep: nothing of them can outlive a failed test.
func (s *shell) blocked(t *testing.T) (stdin *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { write.Close() })
	t.Cleanup(func() { read.Close() })
	s.Stdin = read
	return write
}

func TestLeftoversAreLeftAlone(t *testing.T) {
	// A command in the background has no stdin unless it is given one.
	s := sh(t, `exec 3<&0; sh -c 'echo ready; read line; echo alive' <&3 & exit 3`)
	stdin := s.blocked(t)
	result := watchChild(startShell(t, s), nil, nil)
	s.line(t)
	if r := <-result; r.Class != Finished || r.Exit.Code != 3 {
		t.Errorf("got %+v", r)
	}
	stdin.WriteString("go on\n")
	if got := s.line(t); got != "alive" {
		t.Errorf("the rest says %q", got)
	}
}

func TestSignalsReachTheGroup(t *testing.T) {
	// A shell that reads may miss a signal that comes just before it does; one that waits
	// doesn't.
	s := sh(t, `
		exec 3<&0
		trap 'echo parent USR1' USR1; trap 'exit 9' TERM
		sh -c 'trap "echo child USR1" USR1; trap "echo child TERM; exit" TERM
			sh -c "trap \"\" USR1; read line" <&3 & echo ready; while :; do wait; done' &
		while :; do wait; done`)
	s.blocked(t)
	signals := make(chan os.Signal, 1)
	result := watchChild(startShell(t, s), nil, signals)
	s.line(t)
	signals <- syscall.SIGUSR1
	got := []string{s.line(t), s.line(t)}
	slices.Sort(got)
	if want := []string{"child USR1", "parent USR1"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	signals <- syscall.SIGTERM
	if got := s.line(t); got != "child TERM" {
		t.Errorf("got %q", got)
	}
	if r := <-result; r.Class != Finished || r.Exit.Code != 9 || r.Signal != 0 {
		t.Errorf("got %+v", r)
	}
}

// With a terminal the command shares our group, and is followed by descent.
func TestDescentIsKilledWithoutTheGroup(t *testing.T) {
	s := sh(t, `sh -c 'trap "" TERM; setsid sh -c "trap \"\" TERM; echo deep; sleep 300; sleep 300"; sleep 300' & wait`)
	ch, err := start(launch{Command: s.Command, env: s.Env, tree: planted(t), stops: make(chan os.Signal, 8), tty: new(tty.Terminal)}) // whose foreground nobody is
	if err != nil {
		t.Fatal(err)
	}
	s.out.Close()
	if g, _ := unix.Getpgid(ch.process.Pid); g != unix.Getpgrp() {
		t.Errorf("group %d, ours is %d", g, unix.Getpgrp())
	}
	stops := make(chan stop, 2)
	result := watchChild(ch, stops, nil)
	s.line(t)
	stops <- in(300 * time.Millisecond)
	if r := <-result; r.Class != Lost || r.Exit.Code != 143 {
		t.Errorf("got %+v", r)
	}
	s.silent(t)
}

// Threads come and go in a Go program, and the kernel takes the end of the one
// that started a command for the end of its parent.
func TestCommandOutlivesTheThreads(t *testing.T) {
	s := sh(t, `echo ready; read line; exit 5`)
	stdin := s.blocked(t)
	result := watchChild(startShell(t, s), nil, nil)
	s.line(t)
	endThreads()
	stdin.Close()
	if r := <-result; r.Exit.Code != 5 {
		t.Errorf("got %+v", r)
	}
}

// endThreads ends every thread that isn't locked.
func endThreads() {
	const many = 64
	locked, end, done := make(chan bool), make(chan bool), make(chan bool)
	for range many {
		go func() { runtime.LockOSThread(); locked <- true; <-end; done <- true }()
		<-locked
	}
	close(end)
	for range many {
		<-done
	}
}

func TestCommandDiesWithUs(t *testing.T) {
	s := sh(t, "")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RUNNER_TEST_SCRIPT=echo ready; exec sleep 300")
	cmd.Stdout = s.out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.out.Close()
	s.line(t)
	cmd.Process.Kill()
	cmd.Wait()
	s.silent(t)
}

// The whole of it, with a real command and a real clock.
func TestRunForReal(t *testing.T) {
	b := mem.New()
	s := sh(t, `echo $FLOCKD_KEY $FLOCKD_TOKEN $FLOCKD_HELD; exit 4`)
	var token backends.Token
	o := Options{Backend: b, Request: request(""), Grace: DefaultGrace, Command: s.Command, Chain: []string{"outer"},
		OnGrant: func(l backends.Lease) error { token = l.Token; return nil }}
	r := Run(t.Context(), o)
	s.out.Close()
	if r.Class != Finished || r.Exit.Code != 4 || r.Lease.ID == "" {
		t.Errorf("got %+v", r)
	}
	if got, want := s.line(t), fmt.Sprintf("k %d outer,%s", token, r.Lease.ID); got != want {
		t.Errorf("the command saw %q, want %q", got, want)
	}
	if got := holders(t, b); len(got) != 0 {
		t.Errorf("left %v", got)
	}
}

func TestRunForRealStopsInTime(t *testing.T) {
	b := mem.New()
	f := &faulty{Backend: b, renew: func(context.Context, backends.Lease) (backends.Renewal, error) {
		return backends.Renewal{}, errors.New("down")
	}}
	s := sh(t, `trap '' TERM; sleep 300 & echo ready; wait; sleep 300`)
	req := request("us")
	req.TTL = 3 * time.Second
	began := time.Now()
	r := Run(t.Context(), Options{Backend: f, Request: req, Grace: DefaultGrace, Command: s.Command})
	took := r.Exit.Ended.Sub(began)
	s.out.Close()
	if r.Class != Lost || r.Exit.Code != 137 || took > 2970*time.Millisecond {
		t.Errorf("got %+v after %v", r, took)
	}
	s.silent(t)
}
