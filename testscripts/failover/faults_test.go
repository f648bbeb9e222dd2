//go:build linux

package failover

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fault is something that happens to the host that leads, or is done to it.
type fault struct {
	name     string
	prepare  func(l *lab, leader *host) // nil: nothing
	inflict  func(l *lab, leader *host)
	heal     func(l *lab, leader *host) // the host campaigns afterwards
	zombie   bool                       // the command of the old term lives on
	takes    func(ttl time.Duration) time.Duration
	election bool // etcd's own leader changes
}

var (
	terminated = fault{name: "TERM to flockd", inflict: (*lab).terminate, heal: (*lab).campaigns, takes: atOnce}
	asked      = fault{name: "flockd resign", inflict: (*lab).askToResign, heal: nothing, takes: atOnce}
	killed     = fault{name: "kill -9 of flockd", inflict: (*lab).kill, heal: (*lab).campaigns, takes: atOnce}
	frozen     = fault{name: "flockd frozen", inflict: (*lab).freeze, heal: (*lab).thaw, takes: afterLease}
	frozenHost = fault{name: "host frozen", prepare: (*lab).leadElsewhere, inflict: (*lab).freezeAll, heal: (*lab).thaw, takes: afterLease, zombie: true}
	cutOff     = fault{name: "host cut off", prepare: (*lab).leadElsewhere, inflict: cut, heal: heal, takes: afterLease}

	cutOffTogether = fault{name: "host cut off, etcd's leader with it", prepare: (*lab).leadHere, inflict: cut, heal: heal, takes: afterLease, election: true}
)

// faults are all of them, in the order of the table.
var faults = []fault{terminated, asked, killed, frozen, frozenHost, cutOff, cutOffTogether}

// What a change takes at most on an idle machine, from the fault to the next leader's command.
func atOnce(time.Duration) time.Duration         { return time.Second }
func afterLease(ttl time.Duration) time.Duration { return ttl + 500*time.Millisecond }

// bar is what a store bears of a fault. etcd ends leases in whole seconds, and begins them
// anew with each leader of its own, who is elected within two of its election timeouts.
func (l *lab) bar(f fault) time.Duration {
	most := f.takes(l.ttl)
	switch {
	case f.election:
		return most + 2500*time.Millisecond
	case l.cluster != nil && most > l.ttl:
		return most + 1500*time.Millisecond
	}
	return most
}

func nothing(*lab, *host) {}

func cut(_ *lab, leader *host) { leader.cut() }

func heal(_ *lab, leader *host) { leader.heal() }

func (l *lab) terminate(leader *host) {
	l.Helper()
	c := l.candidates[leader.name]
	must(l.T, c.cmd.Process.Signal(unix.SIGTERM))
	l.ended(c)
	if code := c.cmd.ProcessState.ExitCode(); code != 0 && code != lost {
		l.Errorf("%s resigned, and ended with %v", leader.name, c.cmd.ProcessState)
	}
}

// lost is flockd's exit code where the lease has ended meanwhile.
const lost = 79

func (l *lab) askToResign(leader *host) {
	l.Helper()
	if _, err := l.asks(l.besides(leader.name), "resign", "--key", key); err != nil {
		l.Log(err) // nobody leads at the moment, for example
	}
}

func (l *lab) kill(leader *host) {
	l.Helper()
	c := l.candidates[leader.name]
	must(l.T, c.cmd.Process.Kill())
	l.ended(c)
}

func (l *lab) ended(c *candidate) {
	l.Helper()
	select {
	case <-c.done:
	case <-time.After(patience):
		l.Fatalf("a candidate doesn't end\n%s", l.said())
	}
}

func (l *lab) freeze(leader *host) {
	l.Helper()
	must(l.T, unix.Kill(l.candidates[leader.name].cmd.Process.Pid, unix.SIGSTOP))
}

// freezeAll stops all that runs on a host: flockd first, which would start another guard for
// one that is stopped; the guard leaves it until its lease ends.
func (l *lab) freezeAll(leader *host) {
	l.Helper()
	l.freeze(leader)
	l.until("all stand still", func() bool {
		moving := slices.DeleteFunc(leader.processes(), standsStill)
		slices.SortFunc(moving, func(a, b int) int { return rank(a) - rank(b) })
		for _, pid := range moving {
			unix.Kill(pid, unix.SIGSTOP)
		}
		return len(moving) == 0
	})
}

// rank has guards come first.
func rank(pid int) int {
	if strings.HasPrefix(argv(pid), "flockd-guard ") {
		return 0
	}
	return 1
}

func (l *lab) thaw(leader *host) {
	l.Helper()
	for _, pid := range leader.processes() {
		unix.Kill(pid, unix.SIGCONT)
	}
}

// wakeCommand lets the command of a frozen host go on, and it alone; it is told to write.
func (l *lab) wakeCommand(leader *host) {
	l.Helper()
	for _, pid := range leader.processes() {
		if strings.HasPrefix(argv(pid), filepath.Join(bin, "daemon")) {
			must(l.T, unix.Kill(pid, unix.SIGUSR1))
			must(l.T, unix.Kill(pid, unix.SIGCONT))
			return
		}
	}
	l.Fatalf("%s has no command any more\n%s", leader.name, l.said())
}

// leadElsewhere has etcd, where that is the store, be led by a member on another host.
func (l *lab) leadElsewhere(leader *host) {
	l.Helper()
	if l.cluster == nil {
		return
	}
	l.mend()
	l.cluster.Lead(slices.Index(l.hosts, l.besides(leader.name)))
}

func (l *lab) leadHere(leader *host) {
	l.Helper()
	l.mend()
	l.cluster.Lead(slices.Index(l.hosts, leader))
}

// mend returns when etcd's members hear each other again after the last fault. One that was cut
// off is still hard to hear for seconds, in which the two others can't lose one of them.
func (l *lab) mend() {
	l.Helper()
	l.cluster.Mend()
	l.looking(50*time.Millisecond, "connections that flow", func() bool {
		return !slices.ContainsFunc(l.hosts, (*host).stalled)
	})
}

func argv(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.ReplaceAll(string(text), "\x00", " ")
}

// standsStill reports whether a process is stopped, or dead.
func standsStill(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	i := bytes.LastIndex(stat, []byte(") "))
	return i < 0 || bytes.IndexByte([]byte("TZX"), stat[i+2]) >= 0
}
