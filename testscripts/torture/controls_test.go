//go:build linux

package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"flockd/backends/backendtest/servers"
	"flockd/testscripts/torture/trace"
)

// What is broken on purpose here must be seen, by the check that is named, and what
// isn't broken must pass the same.

// control breaks one thing.
type control struct {
	name    string
	patches []patch
	check   func(t *testing.T, flockd string) error
	says    string // of the break
}

// TestControls breaks one thing a row.
func TestControls(t *testing.T) {
	t.Parallel()
	storming.Wait()
	var all sync.WaitGroup
	defer all.Wait()
	for _, c := range append([]control{
		{"a renewal that inserts", []patch{{"backends/redis/renew.lua",
			`if not mine or not holds(mine) then return`,
			`if not mine or not holds(mine) then
  mine = {v = version, state = 'holding', mode = 'exclusive', slots = 0, owner = {}, asked = text(now), token = '1', granted = text(now), kept = '0'}
  redis.call('ZADD', KEYS[1], -1, id)
end
if false then return`}}, lateRenewal, "no lock can have answered so"},
		{"a deadline counted from the reply", []patch{
			{"runner/keeper.go", `sent := k.inFlight.sent`, `sent := k.clock()`},
			{"runner/wait.go", `return grant{lease: lease, timing: timing, sent: sent}, err`, `return grant{lease: lease, timing: timing, sent: l.clock()}, err`},
		}, lateReply, "longer than its lease could be proven"},
		{"a line that lets others in, and a slot given twice", []patch{
			{"backends/redis/line.lua", `return redis.call('ZLEXCOUNT', KEYS[6], '[' .. family(c), '(' .. kin(c, place)) == rank`, `return true`},
			{"backends/redis/acquire.lua", `free = taken + 1`, `free = 0`},
		}, beside, "5 of 5 pairs met"},
		{"a token that only counts", []patch{
			{"backends/redis/acquire.lua", `math.max(last + 1, now)`, `last + 1`},
		}, lostCounter, "was granted after"},
		{"a tree that is held by nothing", []patch{
			{"runner/tree/leaf_linux.go", `folder := ownCgroup()`, `folder := ""`},
			{"runner/tree/marks_linux.go", `if soft, hard := limitsOf(pid); i.bears(soft) ||`, `if soft, hard := limitsOf(pid); false && i.bears(soft) || false &&`},
			{"runner/tree/marks_linux.go", `return i.ID != "" && holds(pid, i.ID)`, `return false`},
		}, either(bereaved), "says the kernel"},
		{"a guard that knows no deadline", []patch{
			{"runner/guard/guard.go", `return w.dead || w.orders.Kill != Never && w.host.now(w.orders) >= w.orders.Kill`, `return w.dead`},
		}, either(frozen), "longer than its lease could be proven"},
		{"a guard that doesn't kill", []patch{
			{"runner/guard/guard.go", "\tw.tree.Signal(syscall.SIGKILL)\n\treturn !w.tree.Live()", "\tw.tree.Signal(syscall.Signal(0))\n\treturn true"},
		}, either(bereaved), "before its command was dead"},
		{"a guard that gives back first", []patch{
			{"runner/guard/guard.go", `		case !w.cleared():`, `		case w.dead && len(w.legacy) > 0:
			w.host.execute(w.legacy)
			w.legacy = nil
			w.host.wait(-1, 300*time.Millisecond, false, w.orders)
		case !w.cleared():`},
		}, either(bereaved), "before its command was dead"},
		{"a guard that gives nothing back", []patch{
			{"runner/guard/guard.go", `if w.host.execute(w.legacy) {`, `if true {`},
		}, either(bereaved), "only 0 were given back"},
		{"a guard that isn't replaced", []patch{
			{"runner/guardian.go", "began = time.Now()\n\t\t\tg.start()", `began = time.Now()`},
		}, either(guardless), "nobody replaced the guard"},
	}, electionControls...) {
		all.Go(func() {
			t.Run(c.name, func(t *testing.T) {
				if err := c.check(t, flockd(t)); err != nil {
					t.Errorf("flockd as it is: %v", err)
				}
				err := c.check(t, program(t, append(c.patches, traced...)...))
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("it isn't said: %s", c.says)
				}
				t.Logf("seen: %.300v", err)
			})
		})
	}
}

// TestEtcdctlLock shows what etcd's own tool does where flockd ends its command.
func TestEtcdctlLock(t *testing.T) {
	t.Parallel()
	storming.Wait()
	locker := func(etcd, probe, folder, token, work string) *exec.Cmd {
		cmd := exec.Command("etcdctl", "--endpoints", etcd, "lock", "--ttl", "2", "key", probe, folder, work)
		cmd.Env = append(os.Environ(), "ETCDCTL_API=3", "FLOCKD_KEY=key", "FLOCKD_ID=none", "FLOCKD_TOKEN="+token)
		return cmd
	}
	if err := cutOff(t, locker); err == nil {
		t.Error("two commands at a time went unseen")
	}
	locker = func(etcd, probe, folder, token, work string) *exec.Cmd {
		cmd := exec.Command(flockd(t), "run", "--backend", "etcd://"+etcd, "--ttl", "2s", "--wait", "forever", "--key", "key", "--", probe, folder, work)
		cmd.Env = append(os.Environ(), "FLOCKD_CONFIG="+os.DevNull)
		return cmd
	}
	if err := cutOff(t, locker); err != nil {
		t.Errorf("flockd: %v", err)
	}
}

// cutOff has the host of a holder cut off from the store for good, and another one
// wait for the key.
func cutOff(t *testing.T, locker func(etcd, probe, folder, token, work string) *exec.Cmd) error {
	e, folder := servers.Etcd(t, servers.Current), t.TempDir()
	link := servers.Proxy(t, e.Addr)
	holder := locker(link.Addr, probe(t), folder, "1", "1m")
	waiter := locker(e.Addr, probe(t), folder, "2", "0s")
	if err := startSession(holder); err != nil {
		t.Fatal(err)
	}
	defer func() { session(holder.Process.Pid).kill(); holder.Wait() }()
	eventually(t, "the holder runs", func() bool {
		_, err := os.Stat(filepath.Join(folder, "oracle.key"))
		return err == nil
	})
	link.Stall(servers.Requests)
	link.Stall(servers.Replies)
	out, err := waiter.CombinedOutput()
	if found := checkOracle(folder); found != nil || err == nil {
		return found
	}
	t.Fatalf("the waiter: %v: %s", err, out)
	return nil
}

// duel is an arena with a Redis and a way to it that can be disturbed.
type duel struct {
	*arena
	server *servers.Process
	link   *servers.TCPProxy
	far    string // the URL through link
	bare   bool   // without a cgroup
	share  string // how those that begin share the key
}

func newDuel(t *testing.T, flockd string) *duel {
	r := servers.Redis(t)
	link := servers.Proxy(t, r.Addr)
	a := newArena(t, &store{direct: redisURL(r.Addr)}, flockd, 0)
	return &duel{arena: a, server: r, link: link, far: redisURL(link.Addr)}
}

// begin starts a flockd, and returns when its command runs.
func (d *duel) begin(way, mode, work string, options ...string) (*job, <-chan exit) {
	d.t.Helper()
	before, done := len(d.spans()), make(chan exit, 1)
	go func() {
		done <- d.run(&job{key: "key", mode: mode, share: d.share, bare: d.bare}, way, work, options...)
	}()
	eventually(d.t, "the command runs", func() bool { return len(d.spans()) > before })
	for _, j := range d.running() {
		if len(j.members()) > 0 && j.key == "key" {
			return j, done
		}
	}
	d.t.Fatal("nobody runs the command")
	return nil, nil
}

func (d *duel) spans() []*span {
	spans, err := spansIn(d.folder)
	if err != nil && !os.IsNotExist(err) {
		d.t.Fatal(err)
	}
	return spans
}

func (d *duel) requests() []*request {
	if err := d.history.catchUp(); err != nil {
		d.t.Fatal(err)
	}
	return d.history.all()
}

// lateRenewal has a renewal come to the store when its lease has ended and another one
// holds.
func lateRenewal(t *testing.T, flockd string) error {
	d := newDuel(t, flockd)
	first, ended := d.begin(d.far, "", "1m", "--ttl", "2s")
	renewal := func(outcome trace.Outcome, since int64) func() bool {
		return func() bool {
			return slices.ContainsFunc(d.requests(), func(r *request) bool {
				return r.Op == trace.Renew && r.outcome() == outcome && r.At > since
			})
		}
	}
	eventually(t, "the server knows the script", renewal(trace.OK, 0))
	d.link.Stall(servers.Requests)
	eventually(t, "a renewal came to nothing", renewal(trace.Unknown, trace.Now()))
	d.killOff(first)
	<-ended
	second, ended := d.begin(d.store.direct, "", "1m", "--ttl", "2s", "--wait", "forever")
	d.link.Pass(servers.Requests)
	var err error
	for end := time.Now().Add(2 * time.Second); err == nil && time.Now().Before(end); {
		d.run(&job{key: "key"}, d.store.direct, "0s", "--ttl", "2s")
		err = checkModel(operations(d.requests()))
	}
	d.killOff(second)
	<-ended
	return err
}

// lateReply has the replies of the store late, and then none come any more.
func lateReply(t *testing.T, flockd string) error {
	d := newDuel(t, flockd)
	d.link.Delay(servers.Replies, 400*time.Millisecond)
	_, ended := d.begin(d.far, "deaf", "1m", "--ttl", "4s")
	d.link.Stall(servers.Requests)
	<-ended
	_, err := checkDeadlines(d.spans(), livesOf(d.requests()))
	return err
}

// lostCounter has the store lose all data between two holds.
func lostCounter(t *testing.T, flockd string) error {
	d := newDuel(t, flockd)
	for range 2 {
		d.run(&job{key: "key"}, d.store.direct, "0s")
		if err := flush(d.server.Addr); err != nil {
			t.Fatal(err)
		}
	}
	return checkTokens(grantsOf(livesOf(d.requests())))
}

// beside has others come to a holder whom they mustn't be beside, or in its slot.
func beside(t *testing.T, flockd string) error {
	pairs := [][2]string{{"", "shared"}, {"", "slots=2"}, {"shared", "slots=2"}, {"slots=2", "slots=3"}, {"slots=2", "slots=2"}}
	var met []error
	for _, pair := range pairs {
		d := newDuel(t, flockd)
		d.share = pair[0]
		holder, ended := d.begin(d.store.direct, "", "1m")
		d.run(&job{key: "key", share: pair[1]}, d.store.direct, "0s")
		d.killOff(holder)
		<-ended
		if err := checkOracle(d.folder); err != nil {
			met = append(met, err)
		}
	}
	if met == nil {
		return nil
	}
	return fmt.Errorf("%d of %d pairs met: %w", len(met), len(pairs), errors.Join(met...))
}

// either has a check done with a cgroup, and without one.
func either(check func(*duel) error) func(*testing.T, string) error {
	return func(t *testing.T, flockd string) error {
		for _, bare := range []bool{false, true} {
			d := newDuel(t, flockd)
			d.bare = bare
			if err := check(d); err != nil {
				return err
			}
		}
		return nil
	}
}

// daemon starts a flockd whose command has left a daemon, and returns when that works.
func (d *duel) daemon(ttl string) (*job, <-chan exit) {
	d.t.Helper()
	j, ended := d.begin(d.store.direct, "daemon deaf", "1m", "--ttl", ttl, "--leftovers", "wait")
	eventually(d.t, "the daemon works", func() bool { return slices.ContainsFunc(j.members(), j.left) })
	return j, ended
}

// bereaved has flockd killed alone, and another one wait for the key: for far less than
// the lease.
func bereaved(d *duel) error {
	j, ended := d.daemon("1m")
	d.bereave(j)
	<-ended
	d.run(&job{key: "key"}, d.store.direct, "300ms", "--wait", "6s")
	lives, spans := livesOf(d.requests()), d.spans()
	return errors.Join(checkOracle(d.folder), checkSpans(spans), checkReleases(spans, lives), inherit(d.exits, spans, lives).check())
}

// frozen has flockd frozen until its lease is over.
func frozen(d *duel) error {
	j, ended := d.daemon("2s")
	if !j.stop() {
		d.t.Fatal("it can't be frozen")
	}
	until, _ := d.holdsUntil(j)
	eventually(d.t, "its command is over, or its lease", func() bool {
		return len(j.members()) == 0 || trace.Now() > until+2*int64(reaction)
	})
	_, err := checkDeadlines(d.spans(), livesOf(d.requests()))
	d.killOff(j)
	<-ended
	return err
}

// guardless has a guard killed.
func guardless(d *duel) error {
	j, ended := d.daemon("1m")
	_, err := j.replaceGuard(d.t.Context(), 5*time.Second)
	d.killOff(j)
	<-ended
	return err
}

// eventually waits for something that comes within some seconds.
func eventually(t testing.TB, what string, came func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !came() {
		if lasts(ctx, 10*time.Millisecond); ctx.Err() != nil {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}
