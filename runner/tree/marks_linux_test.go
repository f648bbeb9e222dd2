package tree

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// justMarks leaves a tree nothing but what its processes inherit.
func justMarks(i Identity) *Tree {
	return &Tree{Identity: Identity{ID: i.ID, Limit: i.Limit, Born: i.Born}, leader: -1}
}

const wiped = `setsid env -i setpriv --reuid 65534 --regid 65534 --clear-groups /bin/sh -c 'echo $$; exec cat' <&3 & `

func TestMarksAreInherited(t *testing.T) {
	tree := withMarks(t)
	c := begin(t, tree, `exec 3<&0; echo $$; `+wiped+`wait`)
	plain, hidden := c.pid(), c.pid()
	byLimit, byID := Identity{Limit: tree.Limit}, Identity{ID: tree.ID}
	if !byLimit.marked(plain) || !byID.marked(plain) {
		t.Error("the first process isn't marked")
	}
	if !byLimit.marked(hidden) || byID.marked(hidden) {
		t.Errorf("limit %v, environment %v", byLimit.marked(hidden), byID.marked(hidden))
	}
	if (Identity{}).marked(plain) || (Identity{ID: "another-" + tree.ID, Limit: tree.Limit + 1}).marked(plain) {
		t.Error("a mark of another tree, or of none")
	}
	c.killBy(justMarks(Identity{Limit: tree.Limit, Born: tree.Born}))
	c.silent()
}

func TestTheEnvironmentMarks(t *testing.T) {
	tree := withMarks(t)
	tree.Limit = 0
	c := begin(t, tree, `exec 3<&0; setsid sh -c 'echo $$; exec cat' <&3 & wait`)
	c.pid()
	c.killBy(justMarks(tree.Identity))
	c.silent()
}

// A tree reaches nobody without its marks: not those who run beside it, nor the child
// of the same parent.
func TestStrangersAreLeftAlone(t *testing.T) {
	stranger := begin(t, withMarks(t), `echo $$; exec cat`)
	stranger.pid()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			tree := way.make(t)
			tree.ID = "another" + testID[len("the"):]
			c := begin(t, tree, `echo $$; exec cat`)
			c.pid()
			for _, by := range []*Tree{tree, justMarks(tree.Identity), Known(tree.Identity, -1), justMarks(Identity{})} {
				by.Signal(syscall.SIGKILL)
			}
			c.kill()
			stranger.t = t
			stranger.alive()
		})
	}
}

func TestEveryPlaceOfTheEnvironment(t *testing.T) {
	// Each of these begins at another byte of the buffer.
	var ids []string
	var env []string
	for n := range 700 {
		ids = append(ids, fmt.Sprintf("id-%04d-of-some-hold-or-other", n))
		env = append(env, "V="+strings.Repeat("v", n%7), "FLOCKD_HELD=outer,"+strings.Repeat("x", n%5)+","+ids[n])
	}
	const elsewhere = "id-of-another-hold-somewhere-else"
	env = append(env, "ID="+elsewhere, "XFLOCKD_HELD="+elsewhere, "FLOCKD_HELDX="+elsewhere, "FLOCKD_HEL="+elsewhere, "=FLOCKD_HELD="+elsewhere, "V=FLOCKD_HELD="+elsewhere)
	p, err := os.StartProcess("/bin/sleep", []string{"sleep", "60"}, &os.ProcAttr{Env: env})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { p.Kill(); p.Wait() }()
	until(t, "its environment", func() bool { return len(read(of(p.Pid, "environ"), make([]byte, 1))) == 1 })
	for _, id := range ids {
		if !holds(p.Pid, id) {
			t.Errorf("%s isn't found", id)
		}
	}
	for _, id := range []string{"id-9999-of-some-hold-or-other", ids[699] + "x", "y" + ids[0], elsewhere} {
		if holds(p.Pid, id) {
			t.Errorf("%s is found", id)
		}
	}
	if holds(1<<22+1, ids[0]) {
		t.Error("nobody has an environment")
	}
}

// limitOf is the soft limit.
func limitOf(pid int) uint64 {
	soft, _ := limitsOf(pid)
	return soft
}

func TestLimitOf(t *testing.T) {
	before := locksLimit(t)
	defer unix.Setrlimit(rlimitLocks, &before)
	for limit, want := range map[uint64]uint64{
		0: 0, 5: 5, markBase: markBase, markBase + 1<<61 - 1: markBase + 1<<61 - 1, unix.RLIM_INFINITY: 0,
	} {
		if err := unix.Setrlimit(rlimitLocks, &unix.Rlimit{Cur: limit, Max: unix.RLIM_INFINITY}); err != nil {
			t.Fatal(err)
		}
		if got := limitOf(os.Getpid()); got != want {
			t.Errorf("%d is read as %d", limit, got)
		}
	}
}

func TestNewLimitsDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for range 100 {
		l := newLimit()
		if seen[l] || l < markBase || l >= markBase+1<<61 {
			t.Errorf("limit %d", l)
		}
		seen[l] = true
	}
}

func TestOurOwnLimitIsRestored(t *testing.T) {
	before := locksLimit(t)
	defer unix.Setrlimit(rlimitLocks, &before)
	outer := unix.Rlimit{Cur: 10, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(rlimitLocks, &outer); err != nil {
		t.Fatal(err)
	}
	failure := errors.New("it can't be started")
	for _, mark := range []uint64{markBase + 1, 0} {
		want := mark
		if mark == 0 {
			want = unix.RLIM_INFINITY
		}
		err := limited(mark, func() error {
			if got := locksLimit(t); got.Cur != want || got.Max != outer.Max {
				t.Errorf("during the start %+v", got)
			}
			return failure
		})
		if err != failure || locksLimit(t) != outer {
			t.Errorf("%v, afterwards %+v", err, locksLimit(t))
		}
	}
}

func TestNestedMarks(t *testing.T) { inRole(t, "marks") }

// inheritMarks is a flockd inside another's tree.
func inheritMarks() error {
	outer := newLimit()
	if err := unix.Setrlimit(rlimitLocks, &unix.Rlimit{Cur: outer, Max: unix.RLIM_INFINITY}); err != nil {
		return err
	}
	f := newFamily(false)
	inner := newLimit()
	var command, guard int
	start := func(pid *int) func() (int, error) {
		return func() (_ int, err error) {
			*pid, err = syscall.ForkExec("/bin/sleep", []string{"sleep", "60"}, &syscall.ProcAttr{})
			return *pid, err
		}
	}
	if err := errors.Join(f.Start(start(&guard)), startError(f.start(inner, start(&command)))); err != nil {
		return err
	}
	defer syscall.Kill(command, syscall.SIGKILL)
	defer syscall.Kill(guard, syscall.SIGKILL)
	if got := []uint64{limitOf(command), limitOf(guard), limitOf(os.Getpid())}; got[0] != inner || got[1] != 0 || got[2] != outer {
		return fmt.Errorf("limits %v, want %d, 0, %d", got, inner, outer)
	}
	for _, limit := range []uint64{inner, outer} {
		if !(Identity{Limit: limit}).marked(command) || (Identity{Limit: limit}).marked(guard) {
			return fmt.Errorf("%d of %d and %d: not the command, or the guard as well", limit, inner, outer)
		}
	}
	return nil
}

func TestMarksOfTheOutermost(t *testing.T) { inRole(t, "third") }

// third is a flockd inside of two others, as a user who may raise no limit.
func third() error {
	outer, middle := newLimit(), uint64(0)
	for middle = newLimit(); middle > outer; middle = newLimit() {
	}
	if err := errors.Join(unix.Setrlimit(rlimitLocks, &unix.Rlimit{Cur: middle, Max: outer}), becomeNobody()); err != nil {
		return err
	}
	inner := newLimit()
	if inner == 0 || inner >= outer {
		return fmt.Errorf("a mark of %d below %d", inner, outer)
	}
	pid := 0
	err := limited(inner, func() (err error) {
		pid, err = syscall.ForkExec("/bin/sleep", []string{"sleep", "60"}, &syscall.ProcAttr{})
		return err
	})
	if err != nil {
		return err
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	soft, hard := limitsOf(pid)
	if own, _ := limitsOf(os.Getpid()); soft != inner || hard != outer || own != middle {
		return fmt.Errorf("limits %d and %d, and %d of ours", soft, hard, own)
	}
	return nil
}

func startError(_ int, _ bool, err error) error { return err }

// becomeNobody gives up root's rights.
func becomeNobody() error {
	const nobody = 65534
	return syscall.Setresuid(nobody, nobody, nobody)
}

func TestWithoutTheLimitMark(t *testing.T) { inRole(t, "unlimited") }

// unlimited may not set the limit as it likes.
func unlimited() error {
	hard := unix.Rlimit{Cur: 10, Max: 10}
	if err := unix.Setrlimit(rlimitLocks, &hard); err != nil {
		return err
	}
	if l := newLimit(); l != 0 {
		return fmt.Errorf("a mark of %d", l)
	}
	pid := 0
	err := limited(0, func() (err error) {
		pid, err = syscall.ForkExec("/bin/sleep", []string{"sleep", "60"}, &syscall.ProcAttr{})
		return err
	})
	if err != nil {
		return err
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	if l := limitOf(pid); l != 10 {
		return fmt.Errorf("its limit became %d", l)
	}
	return nil
}
