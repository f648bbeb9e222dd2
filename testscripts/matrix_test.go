//go:build linux

package testscripts

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
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
)

// The matrix: in every containment, whatever tree the command is and whatever happens
// to flockd, nothing of it lives when its lease ends.

var containments = []string{"cgroup", "process group, marks"}

// hits are what happens to a flockd and the tree that it runs.
var hits = []struct {
	name string
	show func(c *cell)
}{
	{"Lost", lostHold},
	{"Unreachable", unreachable},
	{"Killed", killedFlockd},
	{"Frozen", frozenFlockd},
	{"FrozenAll", frozenAll},
	{"GuardKilled", guardKilled},
	{"MaxRuntime", maxRuntime},
	{"KilledEarly", killedEarly},
	{"FrozenEarly", frozenEarly},
}

const (
	atOnce  = 2 * time.Second // after flockd's death; milliseconds, unless the machine stalls
	forever = "1m"            // a lease that ends no cell

	// cells run beside each other: more would be late for want of processors.
	cells = 4
)

func TestMatrix(t *testing.T) {
	t.Parallel()
	var results table
	var all []func()
	for _, contained := range containments {
		for _, tree := range trees {
			for _, hit := range hits {
				all = append(all, func() {
					t.Run(contained+"/"+tree.name+"/"+hit.name, func(t *testing.T) {
						c := newCell(t, contained, tree)
						hit.show(c)
						c.nothingLeft()
						results.add(contained+", "+tree.name, hit.name, c.figure)
					})
				})
			}
		}
	}
	beside(cells, all)
	t.Logf("last instruction, in ms after the death of flockd, the limit or the end of the lease; and when the key was free\n%s", &results)
}

// TestMatrixSeesTheLiving takes away what kills the tree: a cell must see that.
func TestMatrixSeesTheLiving(t *testing.T) {
	t.Parallel()
	for _, contained := range containments {
		t.Run(contained+"/Warn", func(t *testing.T) {
			t.Parallel()
			c := newCell(t, contained, treeOf("wiped"))
			c.runs(forever, "--on-lost", "warn")
			c.kill(c.flockd())
			c.livesOn(time.Second)
			c.end()
		})
		t.Run(contained+"/FrozenGuard", func(t *testing.T) {
			t.Parallel()
			c := newCell(t, contained, treeOf("wiped"))
			c.runs(forever)
			guard := c.guard(0)
			c.stop(c.flockd()) // or it would notice, and start another
			c.stop(guard)
			c.kill(c.flockd())
			c.livesOn(time.Second)
			c.signal(guard, unix.SIGCONT)
			c.dead(monotonic(), atOnce)
			c.nothingLeft()
		})
	}
}

// lostHold: somebody removes the hold.
func lostHold(c *cell) {
	c.runs("3s")
	end, ok := c.hold(`DELETE FROM claims WHERE key = ? RETURNING renewed_mono, expires_mono`)
	if !ok {
		c.Fatal("it holds nothing")
	}
	c.dead(end, 0)
	c.ends(79)
}

// unreachable: the store answers no more.
func unreachable(c *cell) {
	c.runs("3s")
	locker := c.locks()
	c.dead(c.provenUntil(), 0)
	c.ends(79)
	c.kill(locker.cmd.Process.Pid)
	locker.ends(137)
}

func killedFlockd(c *cell) {
	c.runs(forever)
	c.kill(c.flockd())
	c.deadAtOnce()
}

// frozenFlockd: it learns when it wakes what has happened.
func frozenFlockd(c *cell) {
	c.runs("3s")
	c.stop(c.flockd())
	c.dead(c.provenUntil(), 0)
	c.signal(c.flockd(), unix.SIGCONT)
	c.ends(79)
}

// frozenAll: a process that is stopped writes no stamps, so what counts is when it is
// seen to be dead.
func frozenAll(c *cell) {
	c.runs("3s")
	guard := c.guard(0)
	c.stop(c.flockd())
	for _, pid := range append(children(c.flockd()), c.pids()...) {
		if pid != guard {
			unix.Kill(pid, unix.SIGSTOP) // a chain has left its number
		}
	}
	c.stopped = true
	c.dead(c.provenUntil(), 0)
	c.signal(c.flockd(), unix.SIGCONT)
	c.ends(79)
}

// guardKilled: the next guard does as well.
func guardKilled(c *cell) {
	c.runs(forever)
	guard := c.guard(0)
	c.kill(guard)
	c.guard(guard)
	until(c, "no zombie", func() bool { return state(guard) == 0 })
	c.kill(c.flockd())
	c.deadAtOnce()
}

func maxRuntime(c *cell) {
	c.runs(forever, "--max-runtime", "2s", "--grace", "200ms")
	c.dead(monotonic()+int64(2200*time.Millisecond), atOnce)
	c.ends(124)
}

// killedEarly: in the first 100 ms, in which the lease and the command begin.
func killedEarly(c *cell) {
	for i := range 4 {
		c.begins(i, "2s")
		c.kill(c.flockd())
		c.dead(monotonic(), atOnce)
		c.ends(137)
		c.free("10s", time.Now()) // where there was no guard yet, the lease has to end
		c.nothingLeft()
	}
}

// frozenEarly: whatever it was doing, it does nothing after the lease.
func frozenEarly(c *cell) {
	for i := range 2 {
		c.begins(i, "2s")
		c.stop(c.flockd())
		end, held := c.hold(holdOf)
		if !held {
			c.kill(c.flockd())
			c.dead(monotonic(), atOnce)
			c.ends(137)
			c.nothingLeft()
			continue
		}
		until(c, "the end of the lease", func() bool { return monotonic() > end })
		c.dead(end, 0)
		c.signal(c.flockd(), unix.SIGCONT)
		until(c, "an end, or another hold", func() bool { return c.job.over() || c.holdsBeyond(end) })
		if c.job.over() {
			c.ends(79, 69) // it came too late to start the command
		} else { // it hadn't read the answer yet, and has asked once more
			c.kill(c.flockd())
			c.dead(monotonic(), atOnce)
			c.ends(137)
		}
		c.nothingLeft()
	}
}

// holdsBeyond reports whether there is a hold that can be proven for longer than until end.
func (c *cell) holdsBeyond(end int64) bool {
	proven, held := c.hold(holdOf)
	return held && proven > end
}

// cell is one place of the matrix.
type cell struct {
	*rig
	contained string
	tree      tree
	folder    string // of the stamps
	key       string
	url       string
	db        string
	job       *job
	stopped   bool // somebody of the tree has been, and its stamps don't tell how long it lives
	figure    string
}

// newCell makes one of which every process has its folder's name among its arguments.
func newCell(t *testing.T, contained string, tree tree) *cell {
	c := &cell{rig: newFolder(t), contained: contained, tree: tree, stopped: tree.name == "stopped"}
	c.key, c.db = c.dir+"/key", filepath.Join(c.dir, "flockd.db")
	c.url = "sqlite://" + c.db
	c.use("tree")
	t.Cleanup(c.end)
	return c
}

// use takes another folder for the stamps.
func (c *cell) use(name string) {
	c.Helper()
	c.folder = filepath.Join(c.dir, name)
	if err := os.Mkdir(c.folder, 0o700); err != nil {
		c.Fatal(err)
	}
}

func (c *cell) flockd() int { return c.job.cmd.Process.Pid }

// begin starts flockd.
func (c *cell) begin(ttl string, args ...string) {
	c.Helper()
	words := []string{filepath.Join(bin, "flockd"), "run", "--verbose", "--backend", c.url, "--key", c.key, "--ttl", ttl}
	words = append(append(words, args...), "--")
	if c.tree.name == "nested" {
		words = append(words, "flockd", "run", "--backend", c.url, "--key", c.folder+"/inner", "--ttl", forever, "--")
	}
	words = append(words, "awkward", c.tree.name, c.folder)
	if c.contained != "cgroup" {
		words = append([]string{"nocgroup"}, words...)
	}
	c.job = c.launch(exec.Command(words[0], words[1:]...))
	c.Cleanup(c.report)
}

// report says what a cell that failed has left.
func (c *cell) report() {
	if !c.Failed() {
		return
	}
	for _, pid := range processes(c.has) {
		c.Logf("left: %d %c %s", pid, state(pid), argv(pid))
	}
	c.Logf("wrote: %v and %v; flockd said:\n%s", c.pids(), c.stamps(), c.job.stderr.String())
}

// runs starts flockd and waits until the tree is whole.
func (c *cell) runs(ttl string, args ...string) {
	c.Helper()
	c.begin(ttl, args...)
	want := 2
	if c.tree.alone {
		want = 1
	}
	until(c, "a whole tree", func() bool { return len(c.pids()) == want && len(c.stamps()) == want })
	if c.tree.name == "stopped" {
		until(c, "stopped", func() bool { return state(c.pids()[0]) == 'T' })
	}
	said := ""
	until(c, "the command runs", func() bool {
		said = c.job.stderr.String()
		return strings.Contains(said, "containment=")
	})
	if !strings.Contains(said, `containment="`+c.contained) {
		c.Errorf("not contained by %s:\n%s", c.contained, said)
	}
}

// begins starts flockd for the nth time and returns at some moment of its first 100 ms.
func (c *cell) begins(n int, ttl string) {
	c.Helper()
	c.use(fmt.Sprint("tree-", n))
	c.begin(ttl)
	until(c, "flockd", func() bool { return strings.HasPrefix(argv(c.flockd()), bin) })
	after := rand.N(100 * time.Millisecond)
	c.Logf("run %d: after %v", n, after)
	time.Sleep(after)
}

// pids are the numbers that the tree has written down.
func (c *cell) pids() (pids []int) {
	for _, name := range []string{"first", "rest"} {
		if pid, ok := c.read(name + ".pid"); ok {
			pids = append(pids, int(pid))
		}
	}
	return pids
}

func (c *cell) stamps() (stamps []int64) {
	for _, name := range []string{"first", "rest"} {
		if stamp, ok := c.read(name); ok {
			stamps = append(stamps, stamp)
		}
	}
	return stamps
}

func (c *cell) read(name string) (int64, bool) {
	text, _ := os.ReadFile(filepath.Join(c.folder, name))
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// alive are the processes of the tree. Guards end when their keys are given back, and
// not before.
func (c *cell) alive() []int {
	return processes(func(pid int) bool {
		return c.has(pid) && pid != c.flockd() && !strings.HasPrefix(argv(pid), "flockd-guard ")
	})
}

// has says whether a process is one of the cell's.
func (c *cell) has(pid int) bool { return strings.Contains(argv(pid), c.dir) }

// dead waits until nothing of the tree is left. The last of it must have lived before
// the limit, and what may come on top.
func (c *cell) dead(limit int64, slack time.Duration) {
	c.Helper()
	until(c, "the end of the tree", func() bool {
		return !slices.ContainsFunc(c.pids(), c.has) && len(c.alive()) == 0
	})
	last := slices.Max(append(c.stamps(), 0))
	if c.stopped {
		last, slack = monotonic(), atOnce
	}
	late := time.Duration(last - limit)
	if last > 0 {
		c.figure = fmt.Sprintf("%.1f", late.Seconds()*1000)
	}
	if late >= slack {
		c.Errorf("it lived %v too long", late-slack)
	}
}

// deadAtOnce: the tree, after flockd was killed a moment ago, and the key is free.
func (c *cell) deadAtOnce() {
	c.Helper()
	killed, now := time.Now(), monotonic()
	c.dead(now, atOnce)
	c.ends(137)
	c.free("5s", killed)
	c.figure += fmt.Sprintf(" %d", time.Since(killed).Milliseconds())
}

// free wants the key to be granted within wait.
func (c *cell) free(wait string, since time.Time) {
	c.Helper()
	c.run(c.url, c.key, "--wait", wait, "--", "true").ends(0)
	c.Logf("the key was given back, and held again, after %v", time.Since(since))
}

func (c *cell) ends(status ...int) {
	c.Helper()
	select {
	case err := <-c.job.done:
		c.job.done <- err
		if got, ok := exitStatus(err); !ok || !slices.Contains(status, got) {
			c.Errorf("status %d, want %d; it said:\n%s", got, status, c.job.stderr.String())
		}
	case <-time.After(patience):
		c.Fatalf("it runs for too long:\n%s", c.job.stderr.String())
	}
}

// livesOn waits until the rest has lived for some time from now on.
func (c *cell) livesOn(d time.Duration) {
	c.Helper()
	end := monotonic() + int64(d)
	until(c, "stamps", func() bool {
		last, _ := c.read("rest")
		return last > end
	})
}

// nothingLeft: no process, no cgroup and no file, once flockd has ended.
func (c *cell) nothingLeft() {
	c.Helper()
	until(c, "nobody left", func() bool { return len(processes(c.has)) == 0 })
	until(c, "no cgroup left", func() bool { return len(leaves(c.flockd())) == 0 })
	c.noFile("tree*", "locked")
}

// end kills what a cell that failed has left.
func (c *cell) end() {
	until(c, "an end", func() bool {
		pids := processes(c.has)
		for _, pid := range pids {
			unix.Kill(pid, unix.SIGKILL)
		}
		return len(pids) == 0
	})
	for _, leaf := range leaves(c.flockd()) {
		until(c, "an empty cgroup", func() bool { return os.Remove(leaf) == nil })
	}
}

// guard waits for the guard that isn't the one before.
func (c *cell) guard(before int) (pid int) {
	c.Helper()
	until(c, "a guard", func() bool {
		pid = guardOf(c.flockd())
		return pid != 0 && pid != before
	})
	return pid
}

func (c *cell) signal(pid int, sig syscall.Signal) {
	c.Helper()
	if err := unix.Kill(pid, sig); err != nil {
		c.Fatalf("%v: %v; flockd said:\n%s", sig, err, c.job.stderr.String())
	}
}

func (c *cell) kill(pid int) {
	c.Helper()
	c.signal(pid, unix.SIGKILL)
}

func (c *cell) stop(pid int) {
	c.Helper()
	c.signal(pid, unix.SIGSTOP)
	until(c, "stopped", func() bool { return state(pid) == 'T' || state(pid) == 'Z' })
}

// hold is until when the hold can be proven, by a statement of store_test.go. There may
// be none.
func (c *cell) hold(statement string) (until int64, ok bool) {
	c.Helper()
	if _, err := os.Stat(c.db); err != nil {
		return 0, false
	}
	db := openDB(c.db)
	defer db.Close()
	var renewed, expires int64
	switch err := db.QueryRow(statement, c.key).Scan(&renewed, &expires); {
	case errors.Is(err, sql.ErrNoRows):
		return 0, false
	case err != nil: // while the tables are being made
		c.Logf("no hold: %v", err)
		return 0, false
	}
	return provenUntil(renewed, expires), true
}

func (c *cell) provenUntil() int64 {
	c.Helper()
	end, ok := c.hold(holdOf)
	if !ok {
		c.Fatal("it holds nothing")
	}
	return end
}

// locks has somebody lock the database and stop.
func (c *cell) locks() *job {
	c.Helper()
	j := c.launch(exec.Command("locker", "flockd.db", "locked")) // nobody takes it for one of the tree
	until(c, "locked", func() bool { return c.exists("locked") })
	return j
}

// table is what the cells have measured.
type table struct {
	mu      sync.Mutex
	figures map[[2]string]string
}

func (t *table) add(row, column, figure string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.figures == nil {
		t.figures = map[[2]string]string{}
	}
	t.figures[[2]string{row, column}] = figure
}

func (t *table) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var text strings.Builder
	line := func(row string, figure func(column string) string) {
		fmt.Fprintf(&text, "%-32s", row)
		for _, hit := range hits {
			fmt.Fprintf(&text, " %-12s", figure(hit.name))
		}
		text.WriteByte('\n')
	}
	line("", func(column string) string { return column })
	for _, contained := range containments {
		for _, tree := range trees {
			row := contained + ", " + tree.name
			line(row, func(column string) string { return t.figures[[2]string{row, column}] })
		}
	}
	return text.String()
}
