package tree

import (
	"os"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// childless reports whether pid isn't our child, not even as a zombie.
func childless(pid int) bool { return !slices.Contains(childrenOf(os.Getpid()), pid) }

func TestOrphansAreReaped(t *testing.T) {
	tree := withMarks(t)
	c := begin(t, tree, `exec 3<&0; (setsid sh -c 'echo $$; read -r l' <&3 &); echo $$; exec cat`)
	first, second := c.pid(), c.pid()
	orphan := first + second - c.process.Pid
	until(t, "adoption", func() bool { return !childless(orphan) })
	if !tree.Outlived() {
		t.Error("nobody is seen to outlive it")
	}
	syscall.Kill(orphan, syscall.SIGKILL)
	until(t, "its end", func() bool { tree.Reap(); return childless(orphan) })
	if tree.Outlived() {
		t.Error("somebody is seen to outlive it")
	}
	c.kill()
}

// The end of what isn't the command's is its own parent's to see.
func TestOthersAreNotReaped(t *testing.T) {
	for _, mixed := range []bool{false, true} {
		started := func(f func(func() (int, error)) error) (pid int) {
			t.Helper()
			err := f(func() (_ int, err error) {
				pid, err = syscall.ForkExec("/bin/sh", []string{"sh", "-c", "exit 7"}, &syscall.ProcAttr{})
				return pid, err
			})
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
		var others []int
		if mixed { // a child from before
			others = append(others, started(func(f func() (int, error)) error { _, err := f(); return err }))
		}
		tree := withMarks(t)
		if tree.family.mixed != mixed {
			t.Errorf("mixed: %v, want %v", tree.family.mixed, mixed)
		}
		guard := started(tree.family.Start)
		others = append(others, guard)
		c := begin(t, tree, `(setsid sh -c 'echo $$; exec sleep 60' &); exec cat`)
		orphan := c.pid()
		until(t, "adoption", func() bool { return !childless(orphan) })
		for _, pid := range others {
			if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
				t.Error(err)
			}
		}
		if !tree.Outlived() {
			t.Error("the orphan isn't seen")
		}
		syscall.Kill(orphan, syscall.SIGKILL)
		until(t, "its end", func() bool { tree.Reap(); return childless(orphan) })
		if tree.Outlived() {
			t.Error("others are taken for the command's")
		}
		for _, pid := range others {
			var status syscall.WaitStatus
			if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || status.ExitStatus() != 7 {
				t.Errorf("mixed %v: %v, status %d", mixed, err, status.ExitStatus())
			}
		}
		tree.family.Forget(guard)
		if tree.family.has(guard) {
			t.Error("it isn't forgotten")
		}
		c.kill()
		tree.Close()
	}
}

// In a family that is mixed, only marks tell the command's orphans from others.
func TestStrangersInAMixedFamily(t *testing.T) {
	before, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "60"}, &syscall.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Wait4(before, nil, 0, nil)
	defer syscall.Kill(before, syscall.SIGKILL)
	c := begin(t, withMarks(t), `(setsid sh -c 'echo $$; exec sleep 60' &); exec cat`)
	orphan := c.pid()
	until(t, "adoption", func() bool { return !childless(orphan) })
	c.kill()
	if dead(before) || !dead(orphan) {
		t.Errorf("the stranger is dead: %v, the orphan: %v", dead(before), dead(orphan))
	}
}

// A guard has to outlive its flockd, and is not killed for its descent.
func TestGuardsAreNotKilledForTheirDescent(t *testing.T) {
	tree := withMarks(t)
	tree.Limit = 0
	c := beginAs(t, tree, "/bin/sh", []string{"sh", "-c", `
		exec 3<&0
		setsid env -i sh -c 'echo $$; exec perl -e "exec {q(/bin/cat)} q(flockd-guard)"' <&3 &
		setsid env -i sh -c 'echo $$; exec cat' <&3 & wait`}, false)
	pids := []int{c.pid(), c.pid()}
	until(t, "a guard", func() bool { return isGuard(pids[0]) != isGuard(pids[1]) })
	guard, other := pids[0], pids[1]
	if isGuard(other) {
		guard, other = other, guard
	}
	defer syscall.Kill(guard, syscall.SIGKILL)
	until(t, "death", func() bool { tree.Signal(syscall.SIGKILL); return dead(other) && dead(c.process.Pid) })
	c.alive()
}

func TestAdoptionEnds(t *testing.T) {
	subreaper := func() (on int32) {
		if err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, ptr(&on), 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		return on
	}
	tree := withMarks(t)
	if subreaper() != 1 {
		t.Error("it doesn't adopt")
	}
	if tree.Close(); subreaper() != 0 {
		t.Error("it adopts still")
	}
	if withLeaf(t); subreaper() != 0 {
		t.Error("with a leaf, nobody is to be adopted")
	}
}

// Where nothing is inherited, descent tells: from a parent that lives, or by adoption. Who was
// started for no command is nobody's.
func TestDescent(t *testing.T) {
	tree := withMarks(t)
	tree.Identity = Identity{}
	other := 0
	err := tree.family.Start(func() (_ int, err error) {
		other, err = syscall.ForkExec("/bin/sleep", []string{"sleep", "60"}, &syscall.ProcAttr{})
		return other, err
	})
	if err != nil {
		t.Fatal(err)
	}
	c := beginAs(t, tree, "/bin/sh", []string{"sh", "-c", `exec 3<&0; (setsid sh -c 'echo $$; exec cat' <&3 &); setsid sh -c 'echo $$; exec cat' <&3 & wait; exec cat`}, false)
	pids := []int{c.pid(), c.pid()}
	until(t, "adoption", func() bool { return childless(pids[0]) != childless(pids[1]) })
	var members []int
	for _, p := range tree.Members() {
		members = append(members, p.PID)
	}
	pids = append(pids, c.process.Pid)
	slices.Sort(members)
	if slices.Sort(pids); !slices.Equal(members, pids) {
		t.Errorf("members %v, want %v", members, pids)
	}
	c.kill()
	if dead(other) {
		t.Error("a process that is of no command was killed")
	}
	syscall.Kill(other, syscall.SIGKILL)
	syscall.Wait4(other, nil, 0, nil)
}
