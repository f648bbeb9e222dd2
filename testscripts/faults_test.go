//go:build linux

package testscripts

import (
	"strings"
	"testing"
	"time"

	"flockd/backends/backendtest/servers"
)

// faults are what happens to a store, or on the way to it, while flockd holds a key
// or asks for one. Each shows that the command was dead before another one began, or
// that the hold was kept; and that no key stays taken for longer than it should.
var faults = []struct {
	name string
	show func(r *rig)
}{
	{"FrozenBriefly", frozenBriefly},
	{"FrozenForLong", frozenForLong},
	{"Killed", killed},
	{"Restarted", restarted},
	{"RestartedUnderAWaiter", restartedUnderWaiter},
	{"ConnectionsReset", connectionsReset},
	{"ConnectionsRefused", connectionsRefused},
	{"OneDeadConnection", oneDeadConnection},
	{"RequestsVanish", func(r *rig) { cutOff(r, servers.Requests) }},
	{"RepliesVanish", func(r *rig) { cutOff(r, servers.Replies) }},
	{"CableIsPulled", func(r *rig) { cutOff(r, servers.Requests, servers.Replies) }},
	{"LostReplyOfTheGrant", lostGrant},
	{"LostReplyOfARenewal", func(r *rig) { lostWhileItRuns(r, "renewal", "8", "6s") }},
	{"LostReplyOfTheRelease", func(r *rig) { lostWhileItRuns(r, "release", "1", "5m") }},
	{"SlowReplies", slowReplies},
	{"RepliesSlowerThanTheLease", tooSlow},
	{"DataIsWiped", wiped},
	{"HolderDies", holderDies},
	{"WaiterCantReachIt", waiterCutOff},
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, s := range []store{redis, etcd, oldEtcd, postgres, mysql} {
		for _, f := range faults {
			t.Run(s.name+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				f.show(newRig(t, s))
			})
		}
	}
}

// works holds a key for as long as a job of d needs, and ends with its status.
func (r *rig) works(d string, args ...string) *job {
	r.Helper()
	j := r.run(r.via, "k", append(args, "--", "sh", "-c", "echo x >running; exec sleep "+d)...)
	r.await("running")
	return j
}

// probes holds the key with a command that tells when it last lived, and that
// doesn't heed TERM.
func (r *rig) probes(stamps string, args ...string) *job {
	r.Helper()
	j := r.run(r.via, "k", append(args, "--", "probe", stamps, "deaf")...)
	r.await(stamps)
	return j
}

// lost is a holder that couldn't prove its lease any more.
func (j *job) lost() *job {
	j.r.Helper()
	return j.ends(79).says("lost the lock on k").says("no renewal succeeded in time")
}

// next asks for the key on a way that isn't disturbed, and tells when it began.
func (r *rig) next() *job {
	r.Helper()
	return r.run(r.direct, "k", "--wait", "30s", "--max-runtime", "2s", "--exit", "max-runtime=0", "--", "probe", "next")
}

// successor is next in line.
func (r *rig) successor() *job {
	r.Helper()
	j := r.next()
	r.waiting(j)
	return j
}

// waiting waits until the job stands in line.
func (r *rig) waiting(j *job) {
	r.Helper()
	until(r, "waiting", func() bool { return strings.Contains(j.stderr.String(), "waiting for k") })
}

// token is the one of a run of another key. A busy server may take its time for the first.
func (r *rig) token() int64 {
	r.Helper()
	r.run(r.direct, "other", "--wait", "30s", "--", "sh", "-c", "echo $FLOCKD_TOKEN >token").ends(0)
	return r.number("token")
}

// free wants the key to be granted within its lease's time and the store's lateness.
func (r *rig) free(ttl time.Duration) {
	r.Helper()
	r.run(r.direct, "k", "--wait", (ttl + r.store.late).String(), "--", "true").ends(0)
}

// frozenBriefly holds up the first renewal, which is due after 3.6 to 4 s and given up
// 1.5 s later. The next goes through, and TERM would come after 8.6 s.
func frozenBriefly(r *rig) {
	j := r.works("14", "--ttl", "12s")
	r.server.Freeze()
	time.Sleep(6 * time.Second)
	r.server.Thaw()
	j.ends(0).says("renewed again")
}

// What was asked while the server stood still is done when it goes on; none of it may
// bring the hold back.
func frozenForLong(r *rig) {
	j := r.probes("stamps", "--ttl", "2s")
	r.server.Freeze()
	j.lost()
	r.server.Thaw()
	r.next().ends(0)
	r.before("stamps", "next")
}

func killed(r *rig) {
	j := r.probes("stamps", "--ttl", "2s")
	r.server.Kill()
	j.lost()
	r.server.Start()
	r.next().ends(0)
	r.before("stamps", "next")
}

func restarted(r *rig) {
	j := r.works("11", "--ttl", "10s")
	r.server.Kill()
	r.server.Start()
	r.run(r.direct, "k", "--", "touch", "ran").ends(75)
	j.ends(0)
	r.free(0)
}

func restartedUnderWaiter(r *rig) {
	j := r.works("3", "--ttl", "1m")
	w := r.run(r.via, "k", "--wait", "1m", "--", "true")
	r.waiting(w)
	r.server.Kill()
	r.server.Start()
	j.ends(0)
	w.ends(0)
}

func connectionsReset(r *rig) {
	j := r.works("14", "--ttl", "12s")
	for range 13 { // a busy machine takes some hundred milliseconds to connect
		r.link.Cut()
		time.Sleep(time.Second)
	}
	j.ends(0)
	r.free(0)
}

func connectionsRefused(r *rig) {
	j := r.probes("stamps", "--ttl", "2s")
	next := r.successor()
	r.link.Refuse(true)
	r.link.Cut()
	j.lost().says("connection refused")
	next.ends(0)
	r.before("stamps", "next")
}

// A connection that a router has forgotten costs a healthy job nothing.
func oneDeadConnection(r *rig) {
	j := r.works("8", "--ttl", "6s")
	before := r.link.Accepted()
	r.link.Silence()
	j.ends(0)
	if r.link.Accepted() == before {
		r.Error("it was never missed")
	}
	r.free(0)
}

// cutOff is noticed by the lease's deadline, not by TCP's.
func cutOff(r *rig, dirs ...servers.Direction) {
	j := r.probes("stamps", "--ttl", "2s")
	next := r.successor()
	for _, dir := range dirs {
		r.link.Stall(dir)
	}
	j.lost()
	next.ends(0)
	r.before("stamps", "next")
	for _, dir := range dirs {
		r.link.Pass(dir) // what was on its way arrives now
	}
	r.free(0)
}

// loses loses the reply to the request that does a step for the first time.
func (r *rig) loses(step string) (has func()) {
	lost := r.link.LoseReply([]byte(r.store.lose[step]))
	return func() {
		r.Helper()
		select {
		case <-lost:
		case <-time.After(patience):
			r.Fatalf("no reply to a %s was lost", step)
		}
	}
}

func lostGrant(r *rig) {
	has := r.loses("grant")
	r.run(r.via, "k", "--ttl", "1m", "--", "true").ends(0)
	has()
	r.free(0)
}

// lostWhileItRuns loses the reply to a step of a job of d.
func lostWhileItRuns(r *rig, step, d, ttl string) {
	j := r.works(d, "--ttl", ttl)
	has := r.loses(step)
	j.ends(0)
	has()
	r.free(0)
}

func slowReplies(r *rig) {
	r.link.Delay(servers.Replies, 100*time.Millisecond)
	j := r.works("5", "--ttl", "4s")
	j.ends(0)
	r.free(0)
}

// A grant that comes when its command would have to be stopped starts none.
func tooSlow(r *rig) {
	r.link.Delay(servers.Replies, 2400*time.Millisecond) // 1.2 of the lease
	r.run(r.via, "k", "--ttl", "2s", "--", "touch", "ran").ends(69).says("unavailable")
	if r.exists("ran") {
		r.Error("the command was started")
	}
	r.free(2 * time.Second)
}

func wiped(r *rig) {
	j := r.probes("stamps", "--ttl", "3s")
	token := r.token()
	r.store.wipe(r)
	j.ends(79).says("lost the lock on k")
	if next := r.token(); next <= token {
		r.Errorf("token %d after %d", next, token)
	}
}

// holderDies, and its guard gives the key back, long before the lease ends.
func holderDies(r *rig) {
	j := r.probes("stamps", "--ttl", "5m")
	next := r.successor()
	j.cmd.Process.Kill()
	j.ends(137)
	next.ends(0)
	r.before("stamps", "next")
}

// waiterCutOff gives up by its own clock, and stands in nobody's way for longer than
// a place lasts. The holder ends when it can give the key back.
func waiterCutOff(r *rig) {
	j := r.works("10", "--ttl", "1m")
	w := r.run(r.via, "k", "--wait", "2s", "--", "touch", "ran")
	r.waiting(w)
	r.link.Stall(servers.Requests)
	r.link.Stall(servers.Replies)
	w.ends(69)
	r.link.Pass(servers.Requests)
	r.link.Pass(servers.Replies)
	j.ends(0)
	r.free(15 * time.Second)
	if r.exists("ran") {
		r.Error("its command was started")
	}
}
