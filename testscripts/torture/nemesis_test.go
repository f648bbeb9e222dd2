//go:build linux

package torture

import (
	"context"
	"math/rand/v2"
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
			lasts(ctx, between(r, 50*time.Millisecond, 500*time.Millisecond))
			began := trace.Now()
			if f := faults[n]; ctx.Err() == nil && f.apply(ctx, r) {
				a.applied(f.name, began)
			}
		}
	}
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

// processFaults harm flockd and its command.
//
// Nothing watches over flockd yet. If it alone is killed, or it is frozen until its
// lease has passed on, its command lives on beside the next one, or may when it is
// woken; that is a limit that the program states. So flockd is killed with all that
// it runs, as by the end of its host, and what is frozen is killed before its lease
// ends, as whatever watches over it will do.
func (a *arena) processFaults() []fault {
	return []fault{
		{"kill", a.kill},
		{"freeze all", a.freezing(session.freeze)},
		{"freeze flockd", a.freezing(session.stop)},
		{"freeze command", a.freezeCommand},
		{"terminate", a.terminate},
	}
}

func (a *arena) kill(_ context.Context, r *rand.Rand) bool { return a.harm(r, anyone, a.killOff) }

func anyone(*job) bool { return true }

// runs reports whether its command does.
func (j *job) runs() bool { return len(j.members()) > 0 }

// killOff kills a job, and remembers that it wasn't the job's fault.
func (a *arena) killOff(j *job) bool {
	a.set(&j.killed, true)
	return j.session.kill()
}

// freezing freezes a job for a while. One that holds doesn't wake after its time, but
// dies.
func (a *arena) freezing(freeze func(session) bool) func(context.Context, *rand.Rand) bool {
	return func(ctx context.Context, r *rand.Rand) bool {
		return a.harm(r, anyone, func(j *job) bool {
			if !freeze(j.session) {
				return false
			}
			d, tooLong := between(r, 50*time.Millisecond, 4*time.Second), false
			if until, holds := a.holdsUntil(j); holds {
				left := time.Duration(until - trace.Now())
				tooLong, d = left < d, min(left, d)
			}
			lasts(ctx, d)
			if tooLong && ctx.Err() == nil {
				a.applied("killed frozen", trace.Now())
				return a.killOff(j)
			}
			j.thaw()
			return true
		})
	}
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
	return a.harm(r, (*job).runs, func(j *job) bool {
		pids := j.members()
		if len(pids) == 0 {
			return false
		}
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGSTOP)
		}
		lasts(ctx, between(r, 50*time.Millisecond, 4*time.Second))
		for _, pid := range j.members() {
			if slices.Contains(pids, pid) {
				syscall.Kill(pid, syscall.SIGCONT)
			}
		}
		return true
	})
}

// terminate asks a flockd to end. It leaves what of its command doesn't listen and
// has lost its parent, so those aren't asked.
func (a *arena) terminate(_ context.Context, r *rand.Rand) bool {
	return a.harm(r, func(j *job) bool { return j.mode != "orphan" }, func(j *job) bool {
		return syscall.Kill(int(j.session), syscall.SIGTERM) == nil
	})
}
