package tree

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// awkward are scripts whose every process copies its input, from 3, to its output
// and has told its number.
var awkward = []struct {
	name, script string
	pids         int
}{
	{"alone", `echo $$; exec cat`, 1},
	{"background", `echo $$; sh -c 'echo $$; exec cat' <&3 & wait`, 2},
	{"own session", `setsid sh -c 'echo $$; exec cat' <&3 & wait`, 1},
	{"orphan", `(setsid sh -c 'echo $$; exec cat' <&3 &); exec cat`, 1},
	{"orphan without an environment", `(` + wiped + `); exec cat`, 1},
	{"deaf", `trap '' TERM; echo $$; cat; exit 3`, 1},
	{"stopped", `echo $$; kill -STOP $$`, 1},
	{"first process has ended", `(setsid sh -c 'echo $$; exec cat' <&3 &)`, 1},
}

func TestKillReachesAll(t *testing.T) {
	for _, way := range ways {
		for _, tc := range awkward {
			t.Run(way.name+"/"+tc.name, func(t *testing.T) {
				c := begin(t, way.make(t), `exec 3<&0; `+tc.script)
				var pids []int
				for range tc.pids {
					pids = append(pids, c.pid())
				}
				var members []int
				for _, p := range c.tree.Members() {
					members = append(members, p.PID)
				}
				for _, pid := range pids {
					if !slices.Contains(members, pid) {
						t.Errorf("%d isn't among %v", pid, members)
					}
				}
				if !c.tree.Live() {
					t.Error("it is taken for dead")
				}
				c.kill()
				for _, pid := range pids {
					if !dead(pid) {
						t.Errorf("%d lives", pid)
					}
				}
				if left := c.tree.Members(); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			})
		}
	}
}

// What the guard does, which is nobody's parent.
func TestKillReachesAllOfAnothersTree(t *testing.T) {
	for _, way := range ways {
		for _, tc := range awkward {
			t.Run(way.name+"/"+tc.name, func(t *testing.T) {
				c := begin(t, way.make(t), `exec 3<&0; `+tc.script)
				for range tc.pids {
					c.pid()
				}
				known := Known(Identity{}, dup(t, c.tree.Folder()))
				defer known.Close()
				known.Update(c.tree.Identity)
				c.killBy(known)
				c.silent()
			})
		}
	}
}

// dup is a descriptor for a tree to take over; -1 stays what it is.
func dup(t testing.TB, fd int) int {
	t.Helper()
	if fd < 0 {
		return fd
	}
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// TERM reaches each process once.
func TestSignalReachesAllOnce(t *testing.T) {
	const counts = `trap 'echo TERM' TERM; echo ready; while :; do read -r l && echo done; done`
	for _, way := range ways {
		for _, group := range []bool{true, false} {
			t.Run(fmt.Sprint(way.name, "/", group), func(t *testing.T) {
				c := beginAs(t, way.make(t), "/bin/sh", []string{"sh", "-c", `exec 3<&0; setsid sh -c "$1" <&3 3<&- & sh -c "$1" <&3 3<&- & ` + counts, "sh", counts}, group)
				for range 3 {
					c.line()
				}
				c.tree.Signal(syscall.SIGTERM)
				got := map[string]int{}
				for range 3 {
					got[c.line()]++
				}
				fmt.Fprint(c.stdin, "x\n")
				got[c.line()]++
				if got["TERM"] != 3 || got["done"] != 1 {
					t.Errorf("got %v", got)
				}
				c.kill()
			})
		}
	}
}

// A process whose first thread has ended is a zombie by its looks.
func TestHeadless(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			c := begin(t, way.make(t), `exec 3<&0; sh -c "$1" <&3 3<&- & exec cat`, `exec setsid env `+roleVariable+`=headless "`+executable(t)+`"`)
			pid := c.pid()
			until(t, "the end of its first thread", func() bool { s, _ := statOf(pid); return s.state == 'Z' })
			known := Known(c.tree.Identity, dup(t, c.tree.Folder()))
			defer known.Close()
			for _, tree := range []*Tree{c.tree, known} {
				if !slices.ContainsFunc(tree.Members(), func(p Process) bool { return p.PID == pid }) {
					t.Errorf("%d isn't among %v", pid, tree.Members())
				}
			}
			c.process.Kill()
			until(t, "the first process's end", func() bool { return dead(c.process.Pid) })
			if !known.Live() || !c.tree.Live() {
				t.Error("it is taken for dead")
			}
			c.kill()
		})
	}
}

// headless ends its first thread, on which it runs.
func headless() error {
	go func() {
		fmt.Println(os.Getpid())
		select {}
	}()
	go time.Sleep(time.Hour) // for the runtime, which would see no way on
	unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	return errors.New("it goes on")
}

func TestReusedNumbers(t *testing.T) {
	inRole(t, "reuse", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
}

// reuse runs in a namespace where numbers are soon used again.
func reuse() error {
	if err := os.WriteFile("/proc/sys/kernel/pid_max", []byte("400"), 0); err != nil {
		return err
	}
	sleep := func(group bool) (int, error) {
		return syscall.ForkExec("/bin/sleep", []string{"sleep", "60"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: group}})
	}
	leader, err := sleep(true)
	if err != nil {
		return err
	}
	s, _ := statOf(leader)
	known := Known(Identity{Leader: leader, Born: s.born, Leads: true}, -1)
	if !known.Live() {
		return errors.New("the first process isn't found")
	}
	known.Signal(syscall.SIGKILL)
	if _, err := syscall.Wait4(leader, nil, 0, nil); err != nil {
		return err
	}
	for born := s.born; born == s.born; { // at another tick of the clock
		pid, err := sleep(false)
		if err != nil {
			return err
		}
		next, _ := statOf(pid)
		born = next.born
		syscall.Kill(pid, syscall.SIGKILL)
		syscall.Wait4(pid, nil, 0, nil)
	}
	// Another process now leads a group of that number, and has a child.
	if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(leader-1)), 0); err != nil {
		return err
	}
	until := time.Now().Add(patience)
	for pid := 0; pid != leader; {
		if time.Now().After(until) {
			return errors.New("the number isn't used again")
		}
		if pid, err = syscall.ForkExec("/bin/sh", []string{"sh", "-c", "sleep 60 & wait"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: true}}); err != nil {
			return err
		}
		if pid != leader {
			syscall.Kill(-pid, syscall.SIGKILL)
			syscall.Wait4(pid, nil, 0, nil)
		}
	}
	again, ok := statOf(leader)
	for end := time.Now().Add(patience); ok && len(childrenOf(leader)) == 0 && time.Now().Before(end); {
	}
	child := childrenOf(leader)
	if !ok || again.born <= s.born || len(child) != 1 {
		return fmt.Errorf("born at %d and %d, children %v", s.born, again.born, child)
	}
	if (&search{tree: known}).belongs(leader, again) {
		return errors.New("a stranger has the first process's number, and is taken for it")
	}
	late := Known(Identity{Leader: leader, Born: s.born, Leads: true}, -1)
	updated := Known(Identity{}, -1)
	updated.Update(late.Identity)
	for n, tree := range []*Tree{known, late, updated} {
		if tree.Live() || len(tree.Members()) > 0 {
			return fmt.Errorf("tree %d takes a stranger for one of its own: %v", n, tree.Members())
		}
		tree.Signal(syscall.SIGKILL)
	}
	if dead(leader) || dead(child[0]) {
		return errors.New("a stranger was killed")
	}
	right := Known(Identity{Leader: leader, Born: again.born, Leads: true}, -1) // the negative control
	right.Signal(syscall.SIGKILL)
	for end := time.Now().Add(patience); right.Live(); {
		if time.Now().After(end) {
			return errors.New("who is of the tree lives")
		}
	}
	return nil
}

func TestMoreProcessesThanDescriptors(t *testing.T) { inRole(t, "crowd") }

// crowd is a tree larger than the number of descriptors that we may have.
func crowd() error {
	const most, many = 64, 200
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return err
	}
	for _, kind := range []string{"ours", "another's", "stopping"} {
		if err := crowdOf(kind, many); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

func crowdOf(kind string, many int) error {
	tree := &Tree{Identity: Identity{ID: testID, Limit: newLimit()}, leader: -1, family: newFamily(true)}
	defer tree.Close()
	out, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	in, stdin, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdin.Close()
	script := fmt.Sprintf(`exec 3<&0; for i in $(seq %d); do setsid cat <&3 & done; echo ready; wait`, many)
	err = tree.Start(&syscall.SysProcAttr{}, func() (int, error) {
		return syscall.ForkExec("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{Files: []uintptr{in.Fd(), write.Fd(), 2}})
	})
	in.Close()
	write.Close()
	if err != nil {
		return err
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || line != "ready\n" {
		return fmt.Errorf("%q, %v", line, err)
	}
	by := tree
	if kind == "another's" {
		by = Known(tree.Identity, -1)
		defer by.Close()
	}
	if got := len(by.Members()); got != many+1 {
		return fmt.Errorf("%d members of %d", got, many+1)
	}
	if kind == "stopping" {
		by.Signal(syscall.SIGTERM)
	} else {
		by.Signal(syscall.SIGKILL)
	}
	for end := time.Now().Add(patience); by.Live(); {
		if time.Now().After(end) {
			return errors.New("it doesn't end")
		}
		if kind != "stopping" {
			by.Signal(syscall.SIGKILL)
		}
		tree.Reap()
	}
	// Now there may be nobody who has the output.
	out.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if rest, err := lines.ReadString('\n'); rest != "" || err == nil || strings.Contains(err.Error(), "timeout") {
		return fmt.Errorf("somebody lives: %q, %v", rest, err)
	}
	syscall.Wait4(tree.Leader, nil, 0, nil)
	return nil
}

func TestNoDescriptorLeft(t *testing.T) { inRole(t, "starved") }

// starved is a tree of which nothing can be read for a while.
func starved() error {
	tree := &Tree{Identity: Identity{ID: testID, Limit: newLimit()}, leader: -1, family: newFamily(true)}
	defer tree.Close()
	err := tree.Start(&syscall.SysProcAttr{Setsid: true}, func() (int, error) {
		return syscall.ForkExec("/bin/sleep", []string{"sleep", "1m"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
	})
	if err != nil {
		return err
	}
	by := Known(Identity{ID: tree.ID, Limit: tree.Limit}, -1)
	defer by.Close()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}); err != nil {
		return err
	}
	var all []int
	for {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		all = append(all, fd)
	}
	for left := range 3 { // none at all, one for the folder, and one for a file in it
		if !by.Live() {
			return fmt.Errorf("with %d descriptors, the tree is taken for dead", left)
		}
		unix.Close(all[left])
	}
	syscall.Kill(tree.Leader, syscall.SIGKILL)
	syscall.Wait4(tree.Leader, nil, 0, nil)
	if by.Live() {
		return errors.New("it doesn't end")
	}
	return nil
}
