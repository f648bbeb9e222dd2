//go:debug containermaxprocs=0

package guard

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flockd/runner/tree"
)

// This binary becomes a guard by its name, and by another what a guard starts.
func TestMain(m *testing.M) {
	if os.Args[0] == GiveBackName {
		giveBack()
	}
	unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC) // what we were left, a guard isn't
	os.Exit(m.Run())
}

// giveBack follows its stdin: "FILE N REST" appends a line to FILE, and succeeds at the
// Nth.
func giveBack() {
	text, err := io.ReadAll(os.Stdin)
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		os.Exit(2)
	}
	f, err := os.OpenFile(fields[0], os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		os.Exit(2)
	}
	fmt.Fprintln(f, len(text), os.Args, os.Environ())
	before, _ := os.ReadFile(fields[0])
	if strconv.Itoa(bytes.Count(before, []byte("\n"))) != fields[1] {
		os.Exit(1)
	}
	os.Exit(0)
}

const patience = 20 * time.Second

func until(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// command copies its input to its output, which a child of its in another session has open. The
// child execs nothing any more when it says that it is ready: a look in the midst of that
// finds no environment.
type command struct {
	*testing.T
	process *os.Process
	stdin   *os.File
	stdout  *os.File
	lines   *bufio.Reader
	tree    tree.Identity
}

// marks counts the commands: each has another.
var marks atomic.Int32

func begin(t *testing.T) *command {
	t.Helper()
	in, stdin, err1 := os.Pipe()
	stdout, out, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	c := &command{T: t, stdin: stdin, stdout: stdout, lines: bufio.NewReader(stdout), tree: tree.Identity{ID: fmt.Sprint("mark-", marks.Add(1), "-of-", os.Getpid()), Leads: true}}
	stdout.SetReadDeadline(time.Now().Add(patience))
	var err error
	c.process, err = os.StartProcess("/bin/sh", []string{"sh", "-c", "setsid sh -c 'echo ready; kill -STOP $$' & exec cat"}, &os.ProcAttr{
		Env: append(os.Environ(), "FLOCKD_HELD="+c.tree.ID), Files: []*os.File{in, out, os.Stderr}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
	out.Close()
	t.Cleanup(func() {
		tree.Known(c.tree, -1).Signal(syscall.SIGKILL)
		c.process.Wait()
		stdin.Close()
		stdout.Close()
	})
	c.tree.Leader, c.tree.Born = c.process.Pid, born(t, c.process.Pid)
	if line, err := c.lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return c
}

// born is field 22 of proc_pid_stat(5).
func born(t testing.TB, pid int) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(statOf(t, pid)[19], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// statOf are the fields of /proc/PID/stat behind the name.
func statOf(t testing.TB, pid int) []string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

func (c *command) alive() {
	c.Helper()
	fmt.Fprintln(c.stdin, "still there")
	if line, err := c.lines.ReadString('\n'); line != "still there\n" {
		c.Fatalf("it says %q, %v", line, err)
	}
}

// dies waits until nobody has its output.
func (c *command) dies() {
	c.Helper()
	if rest, err := c.lines.ReadString('\n'); err != io.EOF {
		c.Fatalf("it says %q, %v", rest, err)
	}
}

// clocks are those of leases.
var clocks = []struct {
	name string
	id   int32
	now  func() time.Duration
}{
	{"boottime", unix.CLOCK_BOOTTIME, func() time.Duration { return read(unix.CLOCK_BOOTTIME) }},
	{"monotonic", unix.CLOCK_MONOTONIC, func() time.Duration { return read(unix.CLOCK_MONOTONIC) }},
}

func read(id int32) time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(id, &ts)
	return time.Duration(ts.Nano())
}

func (c *command) orders(kill time.Duration) Orders { return Orders{Kill: kill, Tree: c.tree} }

// guarded starts a guard over it.
func (c *command) guarded(o Orders, legacy string) *Guard {
	c.Helper()
	g, err := New(o, []byte(legacy), nil)
	if err != nil {
		c.Fatal(err)
	}
	if _, err := g.Start("some key", -1); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { g.End(); g.Process.Wait() })
	return g
}

// isEnded ends a guard, which has had nothing to end for by itself.
func (g *Guard) isEnded(t testing.TB) {
	t.Helper()
	g.End()
	if state, err := g.Process.Wait(); err != nil || state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the guard's end: %v, %v", state, err)
	}
}

// ends waits for a guard's end, which must be a good one.
func (g *Guard) ends(t testing.TB) {
	t.Helper()
	timer := time.AfterFunc(patience, func() { g.Process.Kill() })
	defer timer.Stop()
	if state, err := g.Process.Wait(); err != nil || !state.Success() {
		t.Errorf("the guard: %v, %v", state, err)
	}
}

func TestDeadline(t *testing.T) {
	for _, clock := range clocks {
		t.Run(clock.name, func(t *testing.T) {
			t.Parallel()
			c := begin(t)
			o := c.orders(clock.now() + 700*time.Millisecond)
			o.Monotonic = clock.id == unix.CLOCK_MONOTONIC
			g := c.guarded(o, "")
			c.dies()
			t.Logf("dead %v after the deadline", clock.now()-o.Kill)
			if late := clock.now() - o.Kill; late < 0 || late > 5*time.Second {
				t.Errorf("it is dead %v after the deadline", late)
			}
			g.isEnded(t)
		})
	}
}

func TestDeadlineThatHasPassed(t *testing.T) {
	t.Parallel()
	c := begin(t)
	c.guarded(c.orders(1), "")
	c.dies()
}

func TestMovedDeadline(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ from, to time.Duration }{
		"later":              {4 * time.Second, 5 * time.Second},
		"sooner":             {time.Hour, 500 * time.Millisecond},
		"from none":          {Never, 500 * time.Millisecond},
		"to the other clock": {time.Hour, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, now := begin(t), clocks[0].now
			o := c.orders(tc.from)
			if tc.from != Never {
				o.Kill += now()
			}
			g := c.guarded(o, "")
			if name == "to the other clock" {
				now, o.Monotonic = clocks[1].now, true
			}
			o.Kill = now() + tc.to
			if err := g.Tell(o); err != nil {
				t.Fatal(err)
			}
			c.dies()
			if late := now() - o.Kill; late < 0 || late > 5*time.Second {
				t.Errorf("it is dead %v after the deadline", late)
			}
		})
	}
}

// After its kill the guard kills who comes later, and goes on when the deadline moves.
func TestKilledAndGoesOn(t *testing.T) {
	t.Parallel()
	c := begin(t)
	g := c.guarded(c.orders(1), "")
	c.dies()
	next := begin(t)
	if err := g.Tell(next.orders(2)); err != nil {
		t.Fatal(err)
	}
	next.dies()
	last := begin(t)
	if err := g.Tell(last.orders(Never)); err != nil {
		t.Fatal(err)
	}
	last.alive()
	g.isEnded(t)
	last.alive()
}

func TestEnd(t *testing.T) {
	t.Parallel()
	c := begin(t)
	record := filepath.Join(t.TempDir(), "record")
	g := c.guarded(c.orders(clocks[0].now()+time.Hour), record+" 1")
	g.isEnded(t)
	c.alive()
	if _, err := os.Stat(record); err == nil {
		t.Error("it gave back what it was not left")
	}
}

// The end of the pipe is flockd's.
func TestDeath(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 60_000} {
		c := begin(t)
		record := filepath.Join(t.TempDir(), "record")
		legacy := record + " 1 " + strings.Repeat("x", size)
		g := c.guarded(c.orders(clocks[0].now()+time.Hour), legacy)
		g.pipe.Close()
		c.dies()
		g.ends(t)
		text, _ := os.ReadFile(record)
		if want := fmt.Sprintln(len(legacy), "["+GiveBackName+"]", "[]"); string(text) != want {
			t.Errorf("given back: %q, want %q", text, want)
		}
	}
}

func TestDeathWithoutALegacy(t *testing.T) {
	t.Parallel()
	c := begin(t)
	g := c.guarded(c.orders(Never), "")
	g.pipe.Close()
	c.dies()
	g.ends(t)
}

// A legacy that fails is carried out again, three times at most.
func TestLegacyThatFails(t *testing.T) {
	t.Parallel()
	for good, tries := range map[int]int{2: 2, 3: 3, 9: 3} {
		t.Run(strconv.Itoa(good), func(t *testing.T) {
			t.Parallel()
			c := begin(t)
			record := filepath.Join(t.TempDir(), "record")
			g := c.guarded(c.orders(Never), fmt.Sprint(record, " ", good))
			g.pipe.Close()
			g.ends(t)
			text, _ := os.ReadFile(record)
			if got := bytes.Count(text, []byte("\n")); got != tries {
				t.Errorf("%d tries, want %d", got, tries)
			}
		})
	}
}

func TestGarbage(t *testing.T) {
	t.Parallel()
	c := begin(t)
	g := c.guarded(c.orders(Never), "")
	for _, text := range [][]byte{
		message(kindOrders, nil), message(kindOrders, []byte("short")), message('?', []byte("what")), message(0, nil), make([]byte, 10*headLength),
	} {
		if err := g.write(text); err != nil {
			t.Fatal(err)
		}
	}
	c.alive()
	whole := message(kindOrders, c.orders(1).encode())
	for _, b := range whole { // torn
		if err := g.write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	c.dies()
	g.isEnded(t)
}

// What never becomes whole is followed by flockd's death.
func TestGarbageAtTheEnd(t *testing.T) {
	t.Parallel()
	c := begin(t)
	record := filepath.Join(t.TempDir(), "record")
	g := c.guarded(c.orders(Never), record+" 1")
	if err := g.write([]byte("e\xff\xff\xff\x7f and so on")); err != nil {
		t.Fatal(err)
	}
	g.pipe.Close()
	c.dies()
	g.ends(t)
	if _, err := os.Stat(record); err != nil {
		t.Error(err)
	}
}

// atWork waits until a guard is set up.
func (g *Guard) atWork(t testing.TB) string {
	t.Helper()
	proc := fmt.Sprint("/proc/", g.Process.Pid)
	until(t, "a guard", func() bool {
		name, _ := os.ReadFile(proc + "/comm")
		waiting, _ := os.ReadFile(proc + "/wchan")
		return string(name) == title+"\n" && bytes.Contains(waiting, []byte("poll"))
	})
	return proc
}

func TestDeafGuard(t *testing.T) {
	t.Parallel()
	c := begin(t)
	g := c.guarded(c.orders(Never), "")
	g.atWork(t)
	for _, sig := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
		syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGWINCH, syscall.SIGCONT,
	} {
		if err := g.Process.Signal(sig); err != nil {
			t.Error(err)
		}
	}
	if err := g.Tell(c.orders(1)); err != nil {
		t.Error(err)
	}
	c.dies()
	g.isEnded(t)
}

// All of a guard that others can see.
func TestGuardHoldsNothing(t *testing.T) {
	folder, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	for _, fd := range []int{-1, int(folder.Fd())} {
		c := begin(t)
		g, err := New(c.orders(clocks[0].now()+time.Hour), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Start("some key", fd); err != nil {
			t.Fatal(err)
		}
		proc := g.atWork(t)
		if text, _ := os.ReadFile(proc + "/cmdline"); string(text) != Name+"\x00some key\x00" {
			t.Errorf("its command line is %q", text)
		}
		text, _ := os.ReadFile(proc + "/environ")
		if env := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"); !slices.Equal(env, []string{"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=32MiB"}) {
			t.Errorf("its environment is %q", env)
		}
		if stat := statOf(t, g.Process.Pid); stat[3] != strconv.Itoa(g.Process.Pid) || stat[2] != stat[3] {
			t.Errorf("its group is %s, its session %s", stat[2], stat[3])
		}
		if dir, _ := os.Readlink(proc + "/cwd"); dir != "/" {
			t.Errorf("it works in %s", dir)
		}
		last := os.DevNull
		if fd >= 0 {
			last = folder.Name()
		}
		want := []string{os.DevNull, os.DevNull, os.DevNull, "pipe:", last}
		for n, path := range descriptors(t, proc) {
			if n < len(want) && !strings.HasPrefix(path, want[n]) || n >= len(want) && !strings.HasPrefix(path, "anon_inode:") {
				t.Errorf("descriptor %d is %s", n, path)
			}
		}
		g.isEnded(t)
	}
}

func descriptors(t testing.TB, proc string) map[int]string {
	t.Helper()
	names, err := filepath.Glob(proc + "/fd/*")
	if err != nil || len(names) < 5 {
		t.Fatal(names, err)
	}
	list := map[int]string{}
	for _, name := range names {
		n, _ := strconv.Atoi(filepath.Base(name))
		list[n], _ = os.Readlink(name)
	}
	return list
}

// Where the memory or the processes are at an end, there is no guard, and no trace.
func TestNoGuard(t *testing.T) {
	before := len(descriptors(t, "/proc/self"))
	g, err := New(Orders{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Start("a\x00b", -1); err == nil {
		t.Error("a guard with such a name")
	}
	if after := len(descriptors(t, "/proc/self")); after > before {
		t.Errorf("%d descriptors became %d", before, after)
	}
}

// A stopped guard is noticed when it is told something.
func TestStoppedGuard(t *testing.T) {
	c := begin(t)
	g := c.guarded(c.orders(Never), "")
	g.stop(t)
	if err := g.Tell(c.orders(Never)); err == nil {
		t.Error("it is taken for a good one")
	}
	g.isEnded(t)
	c.alive()
}

func (g *Guard) stop(t testing.TB) {
	t.Helper()
	g.atWork(t)
	if err := g.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, g.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
}

// One that goes on has old deadlines to read, more than it reads at once, and goes by
// the last.
func TestGuardHearsAllBeforeItActs(t *testing.T) {
	c := begin(t)
	g := c.guarded(c.orders(Never), "")
	g.stop(t)
	for range 500 {
		if err := g.write(message(kindOrders, c.orders(1).encode())); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.write(message(kindOrders, c.orders(Never).encode())); err != nil {
		t.Fatal(err)
	}
	g.Process.Signal(syscall.SIGCONT)
	var unread int
	until(t, "an empty pipe", func() bool {
		conn, err := g.pipe.SyscallConn()
		if err == nil {
			conn.Control(func(fd uintptr) { unread, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
		}
		return unread == 0
	})
	c.alive()
	g.isEnded(t)
	c.alive()
}
