//go:debug containermaxprocs=0

package runner

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flockd/backends"
	"flockd/backends/mem"
	"flockd/runner/guard"
	"flockd/runner/tree"
)

// This binary doubles as a run that a test kills, and as what its guard then starts.
func init() {
	switch record := os.Getenv("RUNNER_TEST_LEGACY"); {
	case os.Args[0] == GiveBackName:
		os.Exit(carryOut(os.Stdin))
	case record != "":
		os.Exit(runToBeKilled(record))
	}
}

func runToBeKilled(record string) int {
	var beside *Beside
	if script := os.Getenv("RUNNER_TEST_BESIDE"); script != "" {
		beside = &Beside{Limit: time.Hour, Command: Command{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}}
	}
	r := Run(context.Background(), Options{
		Beside:  beside,
		Backend: mem.New(), Grace: DefaultGrace,
		Request: backends.Request{Key: "to be killed", Mode: backends.Exclusive, TTL: time.Minute},
		Command: Command{Path: "/bin/sh", Args: []string{"sh", "-c", guardedScript}, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr},
		Legacy:  func(l backends.Lease) []byte { return []byte(record + "\n" + l.Key + "\n") },
	})
	return r.Exit.Code
}

// carryOut writes a legacy to the file that its first line names.
func carryOut(legacy io.Reader) int {
	text, err := io.ReadAll(legacy)
	file, rest, _ := strings.Cut(string(text), "\n")
	if err == nil {
		err = os.WriteFile(file, []byte(rest), 0o600)
	}
	if err != nil {
		return 1
	}
	return 0
}

// guarded is a shell under a guardian.
type guarded struct {
	*shell
	*child
	guardian *guardian
	t        *testing.T
	over     sync.Once
}

func (g *guarded) dismiss() { g.over.Do(g.guardian.dismiss) }

func startGuarded(t *testing.T, script string, clock backends.Clock, log *slog.Logger) *guarded {
	t.Helper()
	s := sh(t, script)
	s.blocked(t)
	id := backends.NewID()
	g := newGuardian(t.Name(), clock, nil, log)
	env := append(s.Env, "FLOCKD_HELD="+id)
	ch, err := start(launch{Command: s.Command, env: env, tree: guardedTree(t, id, g), stops: make(chan os.Signal, 8), guard: g})
	if err != nil {
		t.Fatal(err)
	}
	s.out.Close()
	made := &guarded{shell: s, child: ch, guardian: g, t: t}
	t.Cleanup(func() {
		made.dismiss()
		ch.signal(syscall.SIGKILL)
		ch.reap()
	})
	return made
}

// guards are the numbers of the living guards over the test's command.
func (g *guarded) guards() (pids []int) { return guardsOf(g.t, g.t.Name()) }

func guardsOf(t *testing.T, key string) (pids []int) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, _ := os.ReadFile(name + "/cmdline")
		if bytes.Equal(text, []byte(guard.Name+"\x00"+key+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(name))
			pids = append(pids, pid)
		}
	}
	return pids
}

// another waits for a guard that is none of those.
func (g *guarded) another(than ...int) (pid int) {
	g.t.Helper()
	until(g.t, "a guard", func() bool {
		pids := slices.DeleteFunc(g.guards(), func(pid int) bool { return slices.Contains(than, pid) })
		if len(pids) > 0 {
			pid = pids[0]
		}
		return len(pids) == 1
	})
	return pid
}

func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

const guardedScript = `exec 3<&0; setsid sh -c 'echo ready; exec sleep 300' & echo ready; wait`

func TestGuardKillsAtTheDeadline(t *testing.T) {
	for _, clock := range []backends.Clock{backends.Boottime, backends.Monotonic} {
		g := startGuarded(t, guardedScript, clock, quiet)
		g.line(t)
		g.line(t)
		kill := clockOf(clock)() + 300*time.Millisecond
		g.guardian.deadline(kill)
		g.silent(t)
		if late := clockOf(clock)() - kill; late < 0 || late > 5*time.Second {
			t.Errorf("clock %v: dead %v after the deadline", clock, late)
		}
		g.dismiss()
		until(t, "the guard's end", func() bool { return len(g.guards()) == 0 })
	}
}

func TestKilledGuardIsReplaced(t *testing.T) {
	var log bytes.Buffer
	g := startGuarded(t, guardedScript, backends.Boottime, slog.New(slog.NewTextHandler(&log, nil)))
	g.line(t)
	g.line(t)
	var old []int
	for range 3 {
		pid := g.another(old...)
		old = append(old, pid)
		g.guardian.deadline(never)
		syscall.Kill(pid, syscall.SIGKILL)
	}
	last := g.another(old...)
	// What the last one is told, the next one has from its start.
	kill := clockOf(backends.Boottime)() + 3*time.Second
	g.guardian.deadline(kill)
	syscall.Kill(last, syscall.SIGKILL)
	g.another(append(old, last)...)
	g.silent(t)
	if late := clockOf(backends.Boottime)() - kill; late < 0 || late > 5*time.Second {
		t.Errorf("dead %v after the deadline", late)
	}
	g.dismiss()
	until(t, "the guard's end", func() bool { return len(g.guards()) == 0 })
	if n := strings.Count(log.String(), "the guard has ended"); n == 0 || n > 4 { // one that ends at once isn't worth a second word
		t.Errorf("it says %d times that one was killed:\n%s", n, &log)
	}
}

func TestStoppedGuardIsReplaced(t *testing.T) {
	g := startGuarded(t, guardedScript, backends.Boottime, quiet)
	g.line(t)
	g.line(t)
	first := g.another()
	syscall.Kill(first, syscall.SIGSTOP)
	if err := unix.Waitid(unix.P_PID, first, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil && err != unix.ECHILD { // it may be seen already
		t.Fatal(err)
	}
	g.guardian.deadline(never - 1) // seen with the next order
	until(t, "a replaced guard", func() bool { return !slices.Contains(g.guards(), first) })
	second := g.another(first)
	g.guardian.deadline(1)
	g.silent(t)
	if got := g.guards(); len(got) != 1 || got[0] != second {
		t.Errorf("guards %v, want %d", got, second)
	}
}

// A guard that is stopped holds nobody up at the end.
func TestStoppedGuardIsLetGo(t *testing.T) {
	g := startGuarded(t, `echo ready; read line`, backends.Boottime, quiet)
	g.line(t)
	pid := g.another()
	syscall.Kill(pid, syscall.SIGSTOP)
	began := time.Now()
	g.dismiss()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	until(t, "its end", func() bool { return len(g.guards()) == 0 })
	if !g.live() {
		t.Error("the command is dead")
	}
}

// A run that is killed leaves nobody behind, whatever session they made, and its legacy
// is carried out.
func TestTreeDiesWithUs(t *testing.T) {
	s := sh(t, "")
	record := filepath.Join(t.TempDir(), "record")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RUNNER_TEST_LEGACY="+record)
	cmd.Stdout = s.out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.out.Close()
	s.line(t)
	s.line(t)
	cmd.Process.Kill()
	cmd.Wait()
	s.silent(t)
	until(t, "its legacy", func() bool {
		text, _ := os.ReadFile(record)
		return string(text) == "to be killed\n"
	})
	until(t, "the guard's end", func() bool { return len(guardsOf(t, "to be killed")) == 0 })
}

// A guard needs no more than a process and a pipe; without, the command runs on.
func TestNoGuardCanBeStarted(t *testing.T) {
	s := sh(t, `echo ready; read line; exit 3`)
	stdin := s.blocked(t)
	var log bytes.Buffer
	g := newGuardian("a key\x00that can't be an argument", backends.Boottime, nil, slog.New(slog.NewTextHandler(&log, nil)))
	ch, err := start(launch{Command: s.Command, env: s.Env, tree: guardedTree(t, backends.NewID(), g), stops: make(chan os.Signal, 8), guard: g})
	if err != nil {
		t.Fatal(err)
	}
	s.out.Close()
	s.line(t)
	g.deadline(1)
	stdin.Close()
	until(t, "its end", ch.ended)
	if e := ch.reap(); e.Code != 3 {
		t.Errorf("got %+v", e)
	}
	g.dismiss()
	if !strings.Contains(log.String(), "there is no guard") {
		t.Errorf("it says:\n%s", &log)
	}
}

// guardedTree is a tree for a command, with its guard.
func guardedTree(t *testing.T, id string, g *guardian) *tree.Tree {
	tr, _ := plant(id, g, nil)
	t.Cleanup(tr.Close)
	return tr
}
