//go:build linux

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"flockd/testscripts/torture/trace"
)

// fault is something that goes wrong, and is right again when apply returns, as soon
// as ctx ends at the latest. apply reports whether it found something to harm.
type fault struct {
	name  string
	apply func(ctx context.Context, r *rand.Rand) bool
}

// torment applies faults until ctx ends, one at a time and each as often as the others,
// in random order.
func (a *arena) torment(ctx context.Context, r *rand.Rand, faults []fault) {
	for ctx.Err() == nil {
		for _, n := range r.Perm(len(faults)) {
			for tries := 5; tries > 0 && !a.inflict(ctx, r, faults[n]); tries-- {
			}
		}
	}
}

// inflict applies a fault after a while.
func (a *arena) inflict(ctx context.Context, r *rand.Rand, f fault) bool {
	lasts(ctx, between(r, 50*time.Millisecond, 500*time.Millisecond))
	began := trace.Now()
	if ctx.Err() != nil || !f.apply(ctx, r) {
		return false
	}
	a.applied(f.name, began)
	return true
}

// lasts is how a fault lasts.
func lasts(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}

// processFaults harm flockd and its command. Of each list one at a time.
//
// Nobody watches over a command whose flockd and guard both stand still; that is a
// limit that the program states. So what is frozen with its guard is killed before its
// lease ends.
func (a *arena) processFaults() [][]fault {
	hosts := []fault{
		{"kill all", a.kill},
		{"freeze all", a.freezeAll},
		{"freeze command", a.freezeCommand},
		{"terminate", a.terminate},
	}
	guards := []fault{
		{"kill flockd", a.killAlone},
		{"kill guard", a.killGuard},
		{"kill guard, then flockd", a.killInTurn},
		{"freeze flockd", a.freezeAlone},
	}
	return [][]fault{hosts, hosts, guards, guards}
}

func (a *arena) kill(_ context.Context, r *rand.Rand) bool { return a.harm(r, anyone, a.killOff) }

func anyone(*job) bool { return true }

// guarded reports whether a job's command runs, or did and its hold isn't ended yet. A
// look at what was traced is cheaper than one at processes.
func (a *arena) guarded(j *job) bool {
	_, holds := a.holdsUntil(j)
	return holds && j.guard() != 0
}

// runs reports whether a job's command does.
func (a *arena) runs(j *job) bool { return a.guarded(j) && len(j.members()) > 0 }

// killOff kills all of a job, and remembers that it wasn't the job's fault.
func (a *arena) killOff(j *job) bool {
	a.set(&j.killed, true)
	return j.session.kill()
}

// killAlone kills a flockd, and leaves its command to the guard.
func (a *arena) killAlone(_ context.Context, r *rand.Rand) bool {
	return a.harm(r, a.guarded, a.bereave)
}

// bereave kills flockd alone, and remembers when.
func (a *arena) bereave(j *job) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	j.killed, j.alone = true, trace.Now()
	return syscall.Kill(int(j.session), syscall.SIGKILL) == nil
}

func (a *arena) killGuard(ctx context.Context, r *rand.Rand) bool {
	return a.harm(r, a.runs, func(j *job) bool { return a.replaced(ctx, j) })
}

func (a *arena) killInTurn(ctx context.Context, r *rand.Rand) bool {
	return a.harm(r, a.runs, func(j *job) bool { return a.replaced(ctx, j) && a.bereave(j) })
}

func (a *arena) replaced(ctx context.Context, j *job) bool {
	ok, err := j.replaceGuard(ctx, 10*time.Second)
	if err != nil {
		a.t.Error(err)
	}
	return ok
}

// replaceGuard kills the guard, and reports whether another one is at work: none is
// needed where the command has ended meanwhile.
func (j *job) replaceGuard(ctx context.Context, atMost time.Duration) (bool, error) {
	old := j.guard()
	if old == 0 || syscall.Kill(old, syscall.SIGKILL) != nil {
		return false, nil
	}
	for end := time.Now().Add(atMost); ; lasts(ctx, 20*time.Millisecond) {
		switch now := j.guard(); {
		case now != 0 && now != old && armed(now):
			return true, nil
		case len(j.members()) == 0 || ctx.Err() != nil:
			return false, nil
		case time.Now().After(end):
			return false, fmt.Errorf("%d: nobody replaced the guard within %v", j.session, atMost)
		}
	}
}

// armed reports whether a guard waits for a deadline: then it has its orders.
func armed(guard int) bool {
	links, _ := filepath.Glob(of(guard, "fd/*"))
	return slices.ContainsFunc(links, func(link string) bool {
		to, _ := os.Readlink(link)
		return to == "anon_inode:[timerfd]"
	})
}

// freezeAlone freezes a flockd, whether its command has to go meanwhile or not.
func (a *arena) freezeAlone(ctx context.Context, r *rand.Rand) bool {
	return a.harm(r, anyone, func(j *job) bool {
		if !j.stop() {
			return false
		}
		defer j.wake()
		lasts(ctx, between(r, 50*time.Millisecond, 4*time.Second))
		return true
	})
}

// freezeAll freezes a job for a while. One that holds doesn't wake after its time, but
// dies.
func (a *arena) freezeAll(ctx context.Context, r *rand.Rand) bool {
	return a.harm(r, anyone, func(j *job) bool {
		f, ok := j.freeze()
		if !ok {
			return false
		}
		d, tooLong := between(r, 50*time.Millisecond, 4*time.Second), false
		if until, holds := a.holdsUntil(j); holds {
			left := time.Duration(until - trace.Now())
			tooLong, d = left < d, min(left, d)
		}
		lasts(ctx, d)
		if tooLong && ctx.Err() == nil {
			f.end()
			a.applied("killed frozen", trace.Now())
			return a.killOff(j)
		}
		f.thaw()
		return true
	})
}

// reaction is how late this process may be: what a command is given to die in, twice.
const reaction = 500 * time.Millisecond

// holdsUntil is when the hold of a flockd that doesn't run now must be over. It may
// yet hold if it has been told of a grant and hasn't been told of its release: a grant
// that it isn't told of while it is frozen is judged by itself when it wakes.
func (a *arena) holdsUntil(j *job) (until int64, holds bool) {
	if err := a.history.catchUp(); err != nil {
		a.t.Error(err)
	}
	for _, l := range livesOf(a.history.of(int(j.session), j.began)) {
		if n := len(l.grants); n > 0 && l.ended == never {
			return l.grants[n-1].validUntil() - int64(reaction), true
		}
	}
	return 0, false
}

func (a *arena) freezeCommand(ctx context.Context, r *rand.Rand) bool {
	return a.harm(r, a.runs, func(j *job) bool {
		pids := j.members()
		if len(pids) == 0 {
			return false
		}
		signalAll(pids, syscall.SIGSTOP)
		lasts(ctx, between(r, 50*time.Millisecond, 4*time.Second))
		signalAll(pids, syscall.SIGCONT)
		return true
	})
}

// terminate asks a flockd to end.
func (a *arena) terminate(_ context.Context, r *rand.Rand) bool {
	return a.harm(r, anyone, func(j *job) bool { return syscall.Kill(int(j.session), syscall.SIGTERM) == nil })
}
