package tree

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// patience is how long an event may take on a busy machine.
const patience = 20 * time.Second

// until waits for what no event tells.
func until(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// ways are the two kinds of tree that there are.
var ways = []struct {
	name string
	make func(t testing.TB) *Tree
}{{"leaf", withLeaf}, {"marks", withMarks}}

// testID is no other's, not even in another run of these tests.
var testID = fmt.Sprint("the-hold-of-", os.Getpid())

func withLeaf(t testing.TB) *Tree {
	t.Helper()
	tree := New(testID)
	if tree.leaf == nil {
		t.Fatalf("no leaf can be made in %q: these tests need a cgroup v2 that can be written to", ownCgroup())
	}
	t.Cleanup(tree.Close)
	return tree
}

// withMarks is a tree where no leaf can be made.
func withMarks(t testing.TB) *Tree {
	t.Helper()
	tree := &Tree{Identity: Identity{ID: testID, Limit: newLimit()}, leader: -1, family: newFamily(true)}
	t.Cleanup(tree.Close)
	return tree
}

// command is a script that runs in a tree. All of it hold its output open.
type command struct {
	t       testing.TB
	tree    *Tree
	process *os.Process
	stdin   *os.File
	lines   *bufio.Scanner
	over    bool
}

// begin starts a script in a group of its own. It fails a test whose tree isn't dead at
// the end.
func begin(t testing.TB, tree *Tree, script string, args ...string) *command {
	t.Helper()
	return beginAs(t, tree, "/bin/sh", append([]string{"sh", "-c", script, "sh"}, args...), true)
}

func beginAs(t testing.TB, tree *Tree, path string, args []string, group bool) *command {
	t.Helper()
	in, stdin := pipe(t)
	stdout, out := pipe(t)
	stdout.SetReadDeadline(time.Now().Add(patience))
	c := &command{t: t, tree: tree, stdin: stdin, lines: bufio.NewScanner(stdout)}
	sys := &syscall.SysProcAttr{Setpgid: group}
	err := tree.Start(sys, func() (pid int, err error) {
		c.process, err = os.StartProcess(path, args, &os.ProcAttr{
			Env: append(os.Environ(), "FLOCKD_HELD=outer,"+tree.ID), Files: []*os.File{in, out, os.Stderr}, Sys: sys,
		})
		if err != nil {
			return 0, err
		}
		return c.process.Pid, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
	out.Close()
	t.Cleanup(c.end)
	return c
}

func pipe(t testing.TB) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close(); write.Close() })
	return read, write
}

// line is what the command writes next.
func (c *command) line() string {
	c.t.Helper()
	if !c.lines.Scan() {
		c.t.Fatalf("the command says nothing: %v", c.lines.Err())
	}
	return c.lines.Text()
}

// pid is one that the command writes next.
func (c *command) pid() int {
	c.t.Helper()
	pid, err := strconv.Atoi(c.line())
	if err != nil {
		c.t.Fatal(err)
	}
	return pid
}

// kill kills as a flockd does, and wants everybody dead who had the output.
func (c *command) kill() {
	c.t.Helper()
	c.killBy(c.tree)
	c.silent()
}

// killBy kills until a tree says that nobody is left.
func (c *command) killBy(tree *Tree) {
	c.t.Helper()
	until(c.t, "death", func() bool {
		tree.Signal(syscall.SIGKILL)
		return !tree.Live()
	})
}

// silent wants everybody dead who had the output, now.
func (c *command) silent() {
	c.t.Helper()
	for c.lines.Scan() {
		c.t.Logf("more: %s", c.lines.Text())
	}
	if err := c.lines.Err(); err != nil {
		c.t.Errorf("somebody of the tree lives on: %v: %v", err, c.tree.Members())
	}
	c.end()
}

// end ends the script where a test didn't.
func (c *command) end() {
	if c.over {
		return
	}
	c.over = true
	c.stdin.Close()
	c.tree.Signal(syscall.SIGKILL)
	c.process.Wait()
	until(c.t, "the end of its orphans", func() bool {
		if c.tree.Live() {
			c.tree.Signal(syscall.SIGKILL)
		}
		return !c.tree.Outlived()
	})
}

// alive wants a process to answer that copies its input to its output.
func (c *command) alive() {
	c.t.Helper()
	fmt.Fprintln(c.stdin, "still there")
	if got := c.line(); got != "still there" {
		c.t.Errorf("it says %q", got)
	}
}

func dead(pid int) bool {
	s, ok := statOf(pid)
	return !ok || s.state == 'Z'
}

// inRole runs this binary in another role, behind a command or not, and wants it to say
// ok.
func inRole(t *testing.T, role string, behind ...string) {
	t.Helper()
	args := append(behind, executable(t))
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("%s: %v: %s", role, err, out)
	}
}

func executable(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

const roleVariable = "FLOCKD_TEST_ROLE"

// roles are what this binary does instead of tests.
var roles = map[string]func() error{
	"crowd":     crowd,
	"starved":   starved,
	"unborn":    stopUnborn,
	"born":      func() error { return nil },
	"reuse":     reuse,
	"headless":  headless,
	"marks":     inheritMarks,
	"third":     third,
	"fallback":  fallback,
	"unlimited": unlimited,
}

// A role begins on the first thread, and stays there.
func init() {
	if os.Getenv(roleVariable) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	role, ok := roles[os.Getenv(roleVariable)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := role(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ok")
}

func locksLimit(t testing.TB) (l unix.Rlimit) {
	t.Helper()
	if err := unix.Getrlimit(rlimitLocks, &l); err != nil {
		t.Fatal(err)
	}
	return l
}

func ptr[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }
