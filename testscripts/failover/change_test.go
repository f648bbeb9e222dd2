//go:build linux

package failover

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"flockd/backends"
	"flockd/testscripts/torture/trace"
)

// change is one of the leader.
type change struct {
	gap    time.Duration // from the end of the old command to the start of the next: nobody led
	outage time.Duration // from the fault to the start of the next command
}

// zombieWrites are tried with the term that has ended, and each is to be refused.
const zombieWrites = 5

// inflict has a fault happen to the leader, sees another one follow, heals, and sees the old
// one follow too. A busy machine may lose a lease by itself, just before the fault, which then
// hit somebody else, or places in line: it is inflicted again.
func (l *lab) inflict(f fault) change {
	l.Helper()
	for range 10 {
		if c, ok := l.try(f); ok {
			return c
		}
	}
	l.Fatalf("%s: the leader changes by itself each time\n%s", f.name, l.said())
	return change{}
}

func (l *lab) try(f fault) (c change, ok bool) {
	l.Helper()
	old := l.settled()
	leader := l.on(old.host)
	if f.prepare != nil {
		f.prepare(l, leader)
	}
	at := trace.Now()
	f.inflict(l, leader)
	var next event
	l.until(f.name+": another leader", func() bool {
		next = l.after(old)
		return next.token != 0
	})
	if next.at < at || next.host == old.host { // or the others have lost their places
		l.Logf("%s: %s leads after %s without it", f.name, next.host, old.host)
		f.heal(l, leader)
		return change{}, false
	}
	l.follows(f, old, next)
	c = change{gap: time.Duration(next.at - l.lived(old.token)), outage: time.Duration(next.at - at)}
	l.refuses(f, old, next)
	f.heal(l, leader)
	l.expects(f, old, l.settled())
	return c, true
}

// after is the start of the term that came after one.
func (l *lab) after(old event) event {
	all := l.terms()
	for i, e := range all[:max(0, len(all)-1)] {
		if e == old {
			return all[i+1]
		}
	}
	return event{}
}

// follows wants the next command to begin when the old one is dead.
func (l *lab) follows(f fault, old, next event) {
	l.Helper()
	if died := l.lived(old.token); !f.zombie && died >= next.at {
		l.Errorf("%s: %s lived for %v after %s had begun", f.name, old.host, time.Duration(died-next.at), next.host)
	}
}

// expects has the terms that began while a zombie lived meet it.
func (l *lab) expects(f fault, old, now event) {
	for _, e := range l.terms() {
		if f.zombie && old.token < e.token && e.token <= now.token {
			l.zombies[e.token] = true
		}
	}
}

// refuses wants the fence to admit nothing of the old term any more, once the next has written.
func (l *lab) refuses(f fault, old, next event) {
	l.Helper()
	l.until("a write under a later term", func() bool {
		return slices.ContainsFunc(l.history(), func(e event) bool { return e.what == "admitted" && e.token > old.token })
	})
	if f.zombie {
		l.awakes(old, next)
	}
	text := fmt.Append(nil, int64(old.token), "\n")
	for range zombieWrites {
		if code := fence(l.dir, strconv.FormatInt(int64(old.token), 10), text); code != stale {
			l.Errorf("%s: a write of the old term ended with %d, want %d", f.name, code, stale)
		}
	}
	if got := l.written(fencedFile); got <= old.token {
		l.Errorf("%s: the fenced file has what term %d wrote, after term %d", f.name, got, old.token)
	}
}

// awakes wants the command that stood still to write when it goes on, and the next one to have
// met it. The file without a fence loses what the next term has written.
func (l *lab) awakes(old, next event) {
	l.Helper()
	before := l.written(unfencedFile)
	l.wakeCommand(l.on(old.host))
	l.until("a refusal", func() bool { return l.count(old.token, "refused") > 0 })
	if after := l.written(unfencedFile); l.present() == next && (before != next.token || after != old.token) {
		l.Errorf("the file without a fence had what term %d wrote, and then %d; want %d, and %d", before, after, next.token, old.token)
	}
	if l.count(next.token, "overlap") == 0 {
		l.Errorf("%s met nobody, and the command of %s lives", next.host, old.host)
	}
}

// written is the term that has written a file.
func (l *lab) written(name string) backends.Token {
	l.Helper()
	text, err := os.ReadFile(filepath.Join(l.dir, name))
	must(l.T, err)
	term, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	must(l.T, err)
	return backends.Token(term)
}
