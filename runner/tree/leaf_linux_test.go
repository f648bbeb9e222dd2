package tree

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestLeaf(t *testing.T) {
	tree := withLeaf(t)
	path := tree.leaf.path
	if !regexp.MustCompile(fmt.Sprintf(`^flockd-%d-[0-9a-z]+$`, os.Getpid())).MatchString(filepath.Base(path)) || filepath.Dir(path) != ownCgroup() {
		t.Errorf("it is %s", path)
	}
	if got := tree.Containment(); got != "cgroup "+path || !exists(path) {
		t.Errorf("contained by %q", got)
	}
	if other := withLeaf(t); other.leaf.path == path {
		t.Error("two with one name")
	}
	if tree.leaf.populated() || tree.Live() {
		t.Error("somebody is in it already")
	}
	tree.Close()
	if exists(path) {
		t.Error("it is still there")
	}
}

func TestOtherContainments(t *testing.T) {
	tree := withMarks(t)
	if got := tree.Containment(); got != "marks" || tree.Folder() != -1 {
		t.Errorf("contained by %q", got)
	}
	tree.Leads = true
	if got := tree.Containment(); got != "process group, marks" {
		t.Errorf("contained by %q", got)
	}
	tree.Leads = false
}

// group makes a cgroup for a test.
func group(t testing.TB, path ...string) string {
	t.Helper()
	folder := filepath.Join(append([]string{ownCgroup()}, path...)...)
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, _ := filepath.Glob(filepath.Join(folder, leafPrefix+"*"))
		for _, path := range left { // of a test that failed
			os.Remove(path)
		}
		os.Remove(folder)
	})
	return folder
}

// inhabit starts a process in a cgroup.
func inhabit(t testing.TB, folder string) {
	t.Helper()
	dir, err := os.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}

func TestSweep(t *testing.T) {
	own := "test-" + strconv.Itoa(os.Getpid()) // others sweep where we are
	folder := group(t, own)
	parent, err := unix.Open(folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(parent)
	empty, other := group(t, own, "flockd-1-empty"), group(t, own, "other-1-a")
	nested := group(t, own, "flockd-1-nested")
	group(t, own, "flockd-1-nested", "a")
	group(t, own, "flockd-1-nested", "a", "b")
	group(t, own, "flockd-1-nested", "c")
	populated, inside := group(t, own, "flockd-1-populated"), group(t, own, "flockd-1-inside")
	inhabit(t, populated)
	inhabit(t, group(t, own, "flockd-1-inside", "a"))
	held := &leaf{parent: parent, name: "flockd-1-held"}
	heldAt := group(t, own, held.name)
	if !held.hold() {
		t.Fatal("it can't be held")
	}
	sweep(parent)
	for path, want := range map[string]bool{empty: false, nested: false, heldAt: true, populated: true, inside: true, other: true} {
		if exists(path) != want {
			t.Errorf("%s is there: %v", path, !want)
		}
	}
	unix.Close(held.fd)
	if sweep(parent); exists(heldAt) {
		t.Error("nobody holds it any more")
	}
	if held.hold() {
		t.Error("it is gone, and can be held")
	}
}

// A guard that took over the folder keeps the leaf.
func TestNoSweepUnderAGuard(t *testing.T) {
	tree := withLeaf(t)
	path := tree.leaf.path
	fd := dup(t, tree.Folder())
	unix.Close(tree.leaf.fd) // as flockd's death does
	tree.leaf.fd = -1
	known := Known(Identity{}, fd)
	if withLeaf(t); !exists(path) {
		t.Error("it was swept")
	}
	if known.leaf == nil || known.leaf.path != path {
		t.Fatalf("taken over: %+v", known.leaf)
	}
	if known.Close(); exists(path) {
		t.Error("the guard doesn't remove it")
	}
}

func TestKnownWithoutALeaf(t *testing.T) {
	for _, path := range []string{"/", "/dev/null"} {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if known := Known(Identity{}, fd); known.leaf != nil {
			t.Errorf("%s is taken for a leaf", path)
		}
	}
}

// Those who start at the same moment sweep while the others make theirs.
func TestLeavesAtTheSameMoment(t *testing.T) {
	var makers sync.WaitGroup
	for range 8 {
		makers.Go(func() {
			for range 50 {
				l := newLeaf()
				if l == nil {
					t.Error("no leaf")
					return
				}
				dir, err := os.Stat(l.path)
				if err != nil || !dir.IsDir() {
					t.Errorf("it is gone: %v", err)
				}
				l.remove()
			}
		})
	}
	makers.Wait()
}

// A command may make cgroups of its own.
func TestNestedLeaf(t *testing.T) {
	tree := withLeaf(t)
	path := tree.leaf.path
	c := begin(t, tree, `exec 3<&0; mkdir "$1"/a "$1"/a/b; sh -c 'echo $$ >"$1"/a/b/cgroup.procs; echo $$; exec cat' sh "$1" <&3 & echo $$; wait`, path)
	pids := []int{c.pid(), c.pid()}
	for _, pid := range pids {
		if !tree.leaf.has(pid) || !slices.Contains(tree.leaf.members(), pid) {
			t.Errorf("%d isn't in the leaf: %v", pid, tree.leaf.members())
		}
	}
	if tree.leaf.has(os.Getpid()) || tree.leaf.has(1) {
		t.Error("strangers are in the leaf")
	}
	c.kill()
	if tree.Close(); exists(path) {
		t.Error("the leaf is still there")
	}
}

func TestLeftoversLeaveTheLeaf(t *testing.T) {
	tree := withLeaf(t)
	path := tree.leaf.path
	c := begin(t, tree, `exec 3<&0; mkdir "$1"/a; sh -c 'echo $$ >"$1"/a/cgroup.procs; echo $$; exec cat' sh "$1" <&3 & setsid sh -c 'echo $$; exec cat' <&3 & echo $$; exit`, path)
	var pids []int
	for range 3 {
		pids = append(pids, c.pid())
	}
	pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == c.process.Pid })
	c.process.Wait()
	if !tree.Outlived() || !tree.Live() {
		t.Error("nobody is seen to outlive it")
	}
	tree.Close()
	if exists(path) {
		t.Error("the leaf is still there")
	}
	for _, pid := range pids {
		text, _ := os.ReadFile(of(pid, "cgroup"))
		own, _ := os.ReadFile("/proc/self/cgroup")
		if cgroupPath(text) != cgroupPath(own) {
			t.Errorf("%d is in %q", pid, cgroupPath(text))
		}
	}
	c.over = true
	c.stdin.Close() // they end
	c.silent()
}

func TestNobodyOutlives(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			c := begin(t, way.make(t), `exit 3`)
			state, err := c.process.Wait()
			c.over = true
			if err != nil || state.ExitCode() != 3 || c.tree.Outlived() || c.tree.Live() {
				t.Errorf("%v, %v", state, err)
			}
		})
	}
}

// Where a leaf can be made and not be entered, marks have to do.
func TestStartFallsBack(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(folder string) error
		become  string
	}{
		"threaded": {func(folder string) error {
			return os.WriteFile(filepath.Join(folder, "cgroup.type"), []byte("threaded"), 0)
		}, ""},
		"not delegated": {func(folder string) error { return os.Chown(folder, nobody, nobody) }, "setpriv --reuid 65534 --regid 65534 --clear-groups"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := group(t, "test-"+strconv.Itoa(os.Getpid()))
			if err := tc.prepare(folder); err != nil {
				t.Fatal(err)
			}
			inRole(t, "fallback", "/bin/sh", "-c", `echo $$ >"$0"/cgroup.procs; exec `+tc.become+` "$1"`, folder, copyOf(t, executable(t)))
			if left, _ := filepath.Glob(filepath.Join(folder, leafPrefix+"*")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

const nobody = 65534

// copyOf is the binary where other users can run it.
func copyOf(t testing.TB, path string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "flockd-tree-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	to := filepath.Join(dir, "test")
	text, err := os.ReadFile(path)
	if err := errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(to, text, 0o755)); err != nil {
		t.Fatal(err)
	}
	return to
}

// fallback starts a command that can't enter its leaf.
func fallback() error {
	tree := New(testID)
	if tree.leaf == nil {
		return errors.New("no leaf can be made, so there is nothing to fall back from")
	}
	defer tree.Close()
	defer tree.Signal(syscall.SIGKILL)
	tries := 0
	attr := &syscall.SysProcAttr{Setpgid: true}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	guard := 0
	err = tree.family.Start(func() (int, error) {
		guard, err = syscall.ForkExec("/bin/sleep", []string{"sleep", "60"}, &syscall.ProcAttr{})
		return guard, err
	})
	if err != nil {
		return err
	}
	defer syscall.Kill(guard, syscall.SIGKILL)
	err = tree.Start(attr, func() (int, error) {
		tries++
		return syscall.ForkExec("/bin/sh", []string{"sh", "-c", "setsid sleep 60 & setsid sleep 60"}, &syscall.ProcAttr{
			Env: os.Environ(), Sys: attr, Files: []uintptr{0, write.Fd(), 2},
		})
	})
	write.Close()
	if err != nil || tries != 2 || tree.Containment() != "process group, marks" || tree.Folder() != -1 || !tree.family.adopts {
		return fmt.Errorf("%v, %d tries, %s", err, tries, tree.Containment())
	}
	if tree.family.mixed {
		return errors.New("its own children are taken for strangers")
	}
	if limitOf(tree.Leader) != tree.Limit {
		return fmt.Errorf("its limit is %d, want %d", limitOf(tree.Leader), tree.Limit)
	}
	for end := time.Now().Add(patience); tree.Live(); {
		tree.Signal(syscall.SIGKILL)
		if time.Now().After(end) {
			return errors.New("it doesn't end")
		}
	}
	read.SetReadDeadline(time.Now().Add(patience))
	if _, err := read.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		return fmt.Errorf("somebody lives: %v", err)
	}
	return nil
}

// What can't be started at all can't be without a leaf, and leaves nothing behind.
func TestStartFails(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			tree := way.make(t)
			sys := &syscall.SysProcAttr{Setpgid: true}
			err := tree.Start(sys, func() (int, error) {
				return syscall.ForkExec("/no/such/file", []string{"x"}, &syscall.ProcAttr{Sys: sys})
			})
			if !errors.Is(err, syscall.ENOENT) {
				t.Errorf("got %v", err)
			}
			tree.Close()
			if left, _ := filepath.Glob(filepath.Join(ownCgroup(), fmt.Sprint(leafPrefix, os.Getpid(), "-*"))); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}
