package tree

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// beside starts a script beside a command, with a group of its own.
func beside(t testing.TB, c *command, script string) (*command, *Tree) {
	t.Helper()
	in, stdin := pipe(t)
	stdout, out := pipe(t)
	b := &command{t: t, stdin: stdin, over: true}
	stdout.SetReadDeadline(time.Now().Add(patience))
	b.lines = bufio.NewScanner(stdout)
	sys := &syscall.SysProcAttr{}
	own, err := c.tree.StartBeside(sys, func() (pid int, err error) {
		b.process, err = os.StartProcess("/bin/sh", []string{"sh", "-c", script}, &os.ProcAttr{
			Env: append(os.Environ(), "FLOCKD_HELD="+c.tree.ID), Files: []*os.File{in, out, os.Stderr}, Sys: sys,
		})
		if err != nil {
			return 0, err
		}
		return b.process.Pid, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
	out.Close()
	b.tree = own
	t.Cleanup(own.Close)
	return b, own
}

// escape starts who has left the group, the session, the parent and the environment.
const escape = `exec 3<&0; (setsid env -i sh -c 'echo $$; exec cat' <&3 &); echo $$; `

// What runs beside a command can be killed alone, with what it has started, and the
// command with it, by a guard as well.
func TestBeside(t *testing.T) {
	for _, way := range ways {
		for _, by := range []string{"alone", "ours", "the guard's"} {
			t.Run(way.name+"/"+by, func(t *testing.T) {
				tree := way.make(t)
				c := begin(t, tree, escape+`exec cat`)
				c.pid()
				c.pid()
				b, own := beside(t, c, escape+`wait`)
				first, second := b.pid(), b.pid()
				orphan := first + second - b.process.Pid
				if group, err := unix.Getpgid(b.process.Pid); err != nil || group != b.process.Pid {
					t.Errorf("its group is %d, %v", group, err)
				}
				if by == "alone" {
					b.killBy(own)
					if !tree.Live() || !dead(orphan) {
						t.Error("the command is dead, or an orphan beside it isn't")
					}
					c.alive()
				} else {
					all := tree
					if by != "ours" {
						all = Known(tree.Identity, dup(t, tree.Folder()))
						t.Cleanup(all.Close)
					}
					c.killBy(all)
				}
				if !tree.Outlived() && by == "alone" {
					t.Error("nobody is seen to outlive a command that runs")
				}
				if _, err := b.process.Wait(); err != nil {
					t.Errorf("it was reaped: %v", err)
				}
				tree.family.Reaped()
				until(t, "the rest", func() bool { return dead(orphan) })
				c.kill()
			})
		}
	}
}

// Nobody beside a command of which a group is all that is known leaves that.
func TestBesideInAGroup(t *testing.T) {
	tree := &Tree{leader: -1, family: newFamily(true)}
	defer tree.Close()
	c := begin(t, tree, `echo $$; exec cat`)
	b, own := beside(t, c, `echo $$; exec cat`)
	leader := c.pid()
	if group, err := unix.Getpgid(b.pid()); err != nil || group != leader {
		t.Errorf("its group is %d, %v", group, err)
	}
	own.Signal(syscall.SIGKILL)
	if _, err := b.process.Wait(); err != nil || own.Live() {
		t.Errorf("it lives, %v", err)
	}
	tree.family.Reaped()
	c.alive()
	c.kill()
}

func TestBesideThatCannotStart(t *testing.T) {
	for _, way := range ways {
		tree := way.make(t)
		c := begin(t, tree, `exec cat`)
		failure := errors.New("no")
		if own, err := tree.StartBeside(&syscall.SysProcAttr{}, func() (int, error) { return 0, failure }); own != nil || err != failure {
			t.Errorf("%s: %v, %v", way.name, own, err)
		}
		if tree.family.beside != 0 || tree.family.starting {
			t.Error("somebody is waited for")
		}
		c.alive()
		c.kill()
	}
}

func TestMarksOfBesides(t *testing.T) {
	for range 100 {
		if limit := newLimit(); limit == 0 || limit&besideMark != 0 || !isMark(limit) || !isMark(limit|besideMark) {
			t.Errorf("%x", limit)
		}
	}
	limit := newLimit()
	whole, own := Identity{Limit: limit}, Identity{Limit: limit | besideMark}
	if !whole.bears(limit) || !whole.bears(limit|besideMark) || own.bears(limit) || !own.bears(limit|besideMark) {
		t.Error("a tree doesn't know its own")
	}
	if whole.bears(limit+2) || whole.bears(limit-1) || own.bears(limit+2) || (Identity{}).bears(0) || (Identity{}).bears(1) {
		t.Error("a tree takes others for its own")
	}
}

// Who belongs to no tree is of none, is reaped by nobody else, nor is what it leaves taken for
// the command's: that is reaped, and not killed.
func TestAside(t *testing.T) {
	var process *os.Process
	in, stdin := pipe(t)
	stdout, out := pipe(t)
	stdout.SetReadDeadline(time.Now().Add(patience))
	lines := bufio.NewScanner(stdout)
	tree := withMarks(t) // before: its family isn't mixed
	c := begin(t, tree, `echo $$; exec cat`)
	c.pid()
	sys := &syscall.SysProcAttr{}
	own, err := StartAside(sys, func() (pid int, err error) {
		process, err = os.StartProcess("/bin/sh", []string{"sh", "-c", `exec 3<&0; (setsid env -i sh -c 'echo $$; read l' <&3 &); exit 7`},
			&os.ProcAttr{Env: os.Environ(), Files: []*os.File{in, out, os.Stderr}, Sys: sys})
		if err != nil {
			return 0, err
		}
		return process.Pid, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	out.Close()
	orphan := 0
	if !lines.Scan() {
		t.Fatal(lines.Err())
	}
	fmt.Sscan(lines.Text(), &orphan)
	until(t, "adoption", func() bool { return !childless(orphan) })
	if err := unix.Waitid(unix.P_PID, process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	tree.Reap()
	c.kill()
	if dead(orphan) || tree.Outlived() {
		t.Errorf("what it has left is dead: %v, or the command's: %v", dead(orphan), tree.Outlived())
	}
	state, err := process.Wait()
	if err != nil || state.ExitCode() != 7 {
		t.Errorf("its end: %v, %v", state, err)
	}
	ForgetAside(process.Pid)
	if aside.has(process.Pid) {
		t.Error("it isn't forgotten")
	}
	stdin.WriteString(strings.Repeat("\n", 2))
	until(t, "the orphan's end", func() bool { tree.Reap(); return childless(orphan) })
}
