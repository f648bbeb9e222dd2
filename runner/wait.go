package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"flockd/backends"
)

const (
	placeFor   = 15 * time.Second       // how long a dead waiter delays the line
	askEvery   = 5 * time.Second        // keeps a place of placeFor through two questions lost in a row;
	askOften   = time.Second            // where leases are shorter, but no more often than this: see askAgain
	askAtMost  = 2 * time.Second        // one question; two and a half of them fit into patience,
	askAtLast  = 8 * time.Second        // and one to a store that has long been silent: hundreds that ask anew each 2 s keep it busy
	patience   = 5 * time.Second        // how long the store may be silent
	leaveFor   = 900 * time.Millisecond // the line is left within a second, with the process
	backoffMin = 50 * time.Millisecond  // a store that refuses connections is asked 20 times a second at most,
	backoffMax = time.Second            // and once a second in the long run
	// Hints that come for nothing make us ask 100 times a second at most, then
	// less and less. One that comes later than this after our question, as a
	// true one nearly always does, isn't held up.
	hintFloorMin = 10 * time.Millisecond
	hintFloorMax = time.Second
)

// errLate says that a grant came when the time to stop its command had passed.
var errLate = errors.New("the store's answer came too late")

// grant is a lease and what may be trusted of it.
type grant struct {
	lease  backends.Lease
	timing Timing
	sent   time.Duration // the clock just before the question that was answered by it
	early  []os.Signal   // for the command: they came before it, and nobody stood in line
}

// line is one acquisition: it asks until it is granted the key or gives up.
type line struct {
	o     *Options
	clock func() time.Duration

	began   time.Duration
	silent  time.Duration       // since when the store owes an answer
	waited  bool                // somebody was in the way
	claimed bool                // the store has or may have a claim of ours
	held    *backends.HeldError // the last answer, if it was that
	why     error               // why the last question got no answer; nil: it got one
	open    bool                // the last question may be granted yet
	told    bool                // OnWait was called
	barred  bool                // the store refuses that we ask others to leave
	limit   time.Duration       // of the next question
	backoff time.Duration
	floor   time.Duration
}

// acquire returns a Result with a Class unless the key was granted. Then no
// claim is left behind, as far as the store can be reached.
func acquire(ctx context.Context, o *Options, clock func() time.Duration) (grant, Result) {
	l := &line{o: o, clock: clock, began: clock() - o.Spent, backoff: backoffMin, floor: hintFloorMin}
	l.silent = l.began
	go findPidfds()
	inLine, stop := heed(ctx, o.Signals)
	g, r := l.stand(inLine)
	others, err := stop()
	if err != nil && r.Class == "" { // a signal came with the grant
		r = interrupted(inLine)
	}
	if !l.waited { // else they were for those who wait
		g.early = others
	}
	if r.Class != "" && l.claimed {
		l.withdraw(ctx, &r)
	}
	if l.told && o.OnWaited != nil { // last: whoever shows the wait may take his time
		o.OnWaited(r.Class)
	}
	return g, r
}

// withdraw leaves the line with the result r.
func (l *line) withdraw(ctx context.Context, r *Result) {
	limit := leaveFor
	if r.Class == Unavailable {
		limit = attemptFloor // it has been silent for long enough
	}
	if l.leave(ctx, limit, r.Class) && r.Class == Unavailable {
		r.Err = fmt.Errorf("%w; if it has got the question, the key may yet be granted, and stay taken for a lease's time", r.Err)
	}
}

func (l *line) stand(ctx context.Context) (grant, Result) {
	for {
		g, err := l.ask(ctx)
		if err == nil {
			return g, Result{}
		}
		if r := l.judge(ctx, err); r.Class != "" {
			r.Lease = g.lease
			return g, r
		}
		if l.held != nil {
			l.supersede(ctx)
			l.await(ctx)
			l.silent = l.clock()
		} else {
			l.backOff(ctx)
			if ctx.Err() == nil && l.patienceLeft() < attemptFloor { // too short for an answer
				return grant{}, Result{Class: Unavailable, Err: l.why}
			}
		}
	}
}

// ask asks once, and doesn't wait for an answer that could come too late.
func (l *line) ask(ctx context.Context) (grant, error) {
	req := l.o.Request
	limit := l.askLimit()
	if l.o.Wait != 0 {
		req.Place = placeFor
	}
	sent := l.clock()
	var lease backends.Lease
	err := within(ctx, limit, func(ctx context.Context) (err error) {
		lease, err = l.o.Backend.Acquire(ctx, req)
		return err
	})
	l.limit = askAtMost
	if err != nil {
		if l.clock() >= sent+limit-words { // it was told to end
			l.limit = min(2*limit, askAtLast)
		}
		return grant{}, err
	}
	l.claimed, l.open = true, true
	timing, err := TimingOf(l.o.Backend.Traits(), lease.TTL, l.o.Grace)
	if err == nil && l.clock() >= sent+timing.Term {
		err = errLate
	}
	return grant{lease: lease, timing: timing, sent: sent}, err
}

// askLimit is how long the next question may last: an answer that came later would be of
// no use. The more had none in a row, the longer, and yet there is time for another one.
func (l *line) askLimit() time.Duration {
	left := l.patienceLeft()
	limit := min(max(min(l.limit, left/2), askAtMost), left)
	if t, err := TimingOf(l.o.Backend.Traits(), l.o.Request.TTL, l.o.Grace); err == nil {
		limit = min(limit, t.Term)
	}
	return limit
}

// judge returns a Result with a Class if err ends the wait.
func (l *line) judge(ctx context.Context, err error) Result {
	l.held = nil
	var grace *GraceError
	switch {
	case ctx.Err() != nil:
		l.claimed, l.open = true, true
		return interrupted(ctx)
	case errors.As(err, &l.held):
		return l.taken()
	case errors.As(err, &grace):
		return Result{Class: BadGrace, Err: err}
	case errors.Is(err, backends.ErrDone):
		return Result{Class: Done, Err: err}
	case removal(err) != backends.Notice{}:
		return Result{Class: Skipped, Err: err}
	case errors.Is(err, backends.ErrLost) && l.claimed:
		return Result{Class: Skipped, Err: ErrLapsed}
	case errors.Is(err, backends.ErrRefused), errors.Is(err, backends.ErrLost):
		return Result{Class: Unavailable, Err: err}
	}
	l.claimed, l.open = true, true
	level := slog.LevelDebug
	if l.why == nil && l.o.Wait != 0 { // whoever waits long is told why, once
		level = slog.LevelWarn
	}
	l.why = telling(l.why, err)
	if l.o.OnSilent != nil {
		l.o.OnSilent(l.why)
	}
	l.o.Log.Log(context.Background(), level, "no answer from the store, asking again", "key", l.o.Request.Key, "err", err)
	l.tell(nil)
	return Result{}
}

// taken says whether to wait for those who are in the way.
func (l *line) taken() Result {
	l.backoff, l.why = backoffMin, nil // an earlier question may be on its way yet
	if l.o.Wait == 0 {
		return Result{Class: Skipped, Held: l.held}
	}
	l.claimed = true
	switch {
	case slices.ContainsFunc(l.held.Holders, l.ofOurChain):
		return Result{Class: Nested, Held: l.held}
	case l.held.Notice != (backends.Notice{}), l.crowded(), l.waitLeft() <= 0:
		return Result{Class: Skipped, Held: l.held}
	}
	l.waited = true
	l.tell(l.held)
	return Result{}
}

// tell says what the wait has come to.
func (l *line) tell(held *backends.HeldError) {
	if l.o.OnWait != nil && l.o.Wait != 0 {
		l.told = true
		l.o.OnWait(held)
	}
}

// findPidfds has package os find out whether the kernel has pidfds, for which it starts a
// process: a quarter of a millisecond that is better spent while the store is asked than
// when the turn of the command has come.
func findPidfds() {
	if us, err := os.FindProcess(os.Getpid()); err == nil {
		us.Release()
	}
}

func (l *line) ofOurChain(c backends.Claim) bool { return slices.Contains(l.o.Chain, c.ID) }

func (l *line) waitLeft() time.Duration {
	if l.o.Wait == Forever {
		return never
	}
	return l.began + l.o.Wait - l.clock()
}

// patienceLeft is how long the store may yet be silent.
func (l *line) patienceLeft() time.Duration {
	if l.o.Wait == Forever {
		return never
	}
	return max(l.began+l.o.Wait, l.silent+l.o.Patience) - l.clock()
}

// leave gives the claim up, known or not, and reports whether the key may be or yet become
// ours: it was granted, or a question had no answer, and the withdrawal had none. The user
// is told, unless the store is unavailable: that is said anyway.
func (l *line) leave(ctx context.Context, limit time.Duration, why Class) (open bool) {
	err := within(context.WithoutCancel(ctx), limit, func(ctx context.Context) error {
		return l.o.Backend.Release(ctx, l.o.Request.Key, l.o.Request.ID, backends.Outcome{})
	})
	if err == nil || errors.Is(err, backends.ErrLost) {
		return false
	}
	open = l.open && (err == errSilent || errors.Is(err, context.DeadlineExceeded))
	if open && why != Unavailable {
		l.o.Log.Warn("the store did not answer: the key may yet be granted to this run, and stay taken until that lease expires",
			"key", l.o.Request.Key, "ttl", l.o.Request.TTL, "err", err)
	} else {
		l.o.Log.Debug("the place in line is left to expire", "key", l.o.Request.Key, "err", err)
	}
	return open
}
