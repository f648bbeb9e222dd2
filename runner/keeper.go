package runner

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"flockd/backends"
)

// watchAfter spares a command that is over sooner the cost of a watch: with etcd some
// 4 % of the processor time that a run of true takes.
const watchAfter = 100 * time.Millisecond

// watchFloorMax bounds what a store costs whose hints come for nothing: at most
// one renewal in this time, as if it had none.
const watchFloorMax = renewAtMost

// stopsAtMost is how many stops a keeper tells: that somebody wants one, that the lease can't
// be proven, and that it is gone.
const stopsAtMost = 3

// keeper renews one lease, and says when the command has to go. A stop comes
// through stops, at most stopsAtMost of them: each can only bring the one before forward.
type keeper struct {
	backend backends.Backend
	grace   time.Duration // as asked, or DefaultGrace
	clock   func() time.Duration
	tick    time.Duration // the longest sleep
	log     *slog.Logger
	guard   interface{ deadline(time.Duration) } // told each deadline
	stops   chan stop
	hints   chan struct{}            // the next renewal has something to tell
	yields  chan absence             // somebody else renews
	asks    chan inquiry             // somebody wants the hold proven
	warns   bool                     // the command outlives its lease
	onRenew func(left time.Duration) // see Options; may be nil

	lease    backends.Lease
	inFlight question
	failures int       // in a row
	renewals int       // that were sent
	waiting  []inquiry // for what a renewal shows that is sent after they came

	mu       sync.Mutex
	term     term
	why      error // of the last renewal's failure; nil: it succeeded
	stopping error // why the command is being stopped, or is asked to stop; nil: it isn't
}

// question is a renewal that was sent.
type question struct {
	sent   time.Duration
	answer <-chan answer[backends.Renewal] // nil: none is in flight
	cancel context.CancelFunc
}

// keep starts a keeper of a lease whose grant was asked for at sent. end stops
// the renewals, and is called when nothing of the command is left.
func keep(ctx context.Context, k *keeper, timing Timing, sent time.Duration) (end func()) {
	k.stops, k.hints, k.yields, k.asks = make(chan stop, stopsAtMost), make(chan struct{}), make(chan absence), make(chan inquiry)
	k.term = term{timing: timing, ttl: k.lease.TTL}.renewed(sent, rand.Float64())
	k.lasts(k.term)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.loop(ctx)
	}()
	if watcher, ok := backends.As[backends.Watcher](k.backend); ok {
		go k.watch(ctx, watcher)
	}
	return func() { cancel(); <-done }
}

// watch asks for a renewal whenever the store says that there is something to
// hear. A store that says so for nothing, or can't watch, is asked less and less.
func (k *keeper) watch(ctx context.Context, watcher backends.Watcher) {
	pause(ctx, watchAfter)
	for floor := hintFloorMin; ctx.Err() == nil; floor = min(2*floor, watchFloorMax) {
		began := k.clock()
		lease := k.lease
		a := <-call(func() (struct{}, error) { return struct{}{}, watcher.Watch(ctx, lease) })
		if a.err == nil {
			select {
			case k.hints <- struct{}{}:
			case <-ctx.Done():
			}
		}
		if k.clock()-began > watchFloorMax {
			floor = hintFloorMin
		}
		pause(ctx, floor)
	}
}

// standing is nil while the lease can be trusted, else a *LostError.
func (k *keeper) standing() error {
	if err := k.read().standing(k.clock()); err != nil {
		return k.lost(err)
	}
	return nil
}

// left is how long the lease may yet last.
func (k *keeper) left() time.Duration {
	t := k.read()
	if t.gone != nil {
		return 0
	}
	return max(t.sent+t.timing.Trusted-k.clock(), 0)
}

// lasts says how long the lease of t may yet be trusted.
func (k *keeper) lasts(t term) {
	if k.onRenew != nil {
		k.onRenew(t.sent + t.timing.ValidUntil - k.clock())
	}
}

func (k *keeper) read() term {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.term
}

func (k *keeper) write(t term) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.term = t
}

func (k *keeper) loop(ctx context.Context) {
	for ctx.Err() == nil {
		t, now := k.read(), k.clock() // nobody else writes it
		switch s := t.decide(now); s.do {
		case tell:
			why := k.lost(s.stop.why)
			k.stops <- stop{s.stop.kill, why}
			if !k.outlives(s.stop) {
				k.stopped(why)
			}
			k.guard.deadline(min(s.stop.kill, t.sent+t.timing.Kill))
			k.write(t.passedOn(now))
		case renew:
			k.ask(ctx, now)
			k.write(t.asked(now))
		case giveUp:
			k.drop()
			k.failed(t, errSilent, now)
			k.attend()
		case rest:
			k.rest(ctx, s.at-now)
		}
	}
	k.drop()
}

// rest waits for d, a tick, an answer, a hint or the end of ctx.
func (k *keeper) rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(min(d, k.tick))
	defer timer.Stop()
	hints := k.hints
	if k.inFlight.answer != nil {
		hints = nil // what it is about may have come after the question
	}
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-hints:
		k.write(k.read().hinted(k.clock()))
	case i := <-k.asks:
		i.after = k.renewals
		k.waiting = append(k.waiting, i)
		k.attend()
	case a := <-k.yields:
		k.drop()
		said := <-a.said
		k.write(k.retimed(k.read(), said.TTL).relieved(said.Sent, k.clock()))
		k.lasts(k.read())
		close(a.heard)
	case a := <-k.inFlight.answer:
		if ctx.Err() != nil {
			return // the end of ctx is why it failed
		}
		sent := k.inFlight.sent
		k.drop()
		k.answered(sent, a)
		k.attend()
	}
}

// absence is a time in which another renews the lease.
type absence struct {
	said  chan report   // what it has renewed: the end
	heard chan struct{} // closed when that is known
}

// yield has the keeper stand still, until back is called with what another has renewed. That
// returns when the keeper goes by it.
func (k *keeper) yield() (back func(report)) {
	a := absence{make(chan report), make(chan struct{})}
	k.yields <- a
	return func(said report) {
		a.said <- said
		<-a.heard
	}
}

// ask sends a renewal. now was read before, so the lease lasts from now at least.
func (k *keeper) ask(ctx context.Context, now time.Duration) {
	ctx, cancel := toldToEnd(ctx, k.term.timing.Attempt)
	lease := k.lease
	k.renewals++
	k.inFlight = question{now, call(func() (backends.Renewal, error) { return k.backend.Renew(ctx, lease) }), cancel}
}

// drop lets go of the renewal in flight: an answer that comes later is not heard.
func (k *keeper) drop() {
	if k.inFlight.cancel != nil {
		k.inFlight.cancel()
	}
	k.inFlight = question{}
}

func (k *keeper) answered(sent time.Duration, a answer[backends.Renewal]) {
	t, now := k.read(), k.clock()
	if a.err == nil && a.value.TTL <= 0 {
		a.err = fmt.Errorf("the store renewed for %v", a.value.TTL) // a fault of its driver
	}
	if a.err != nil {
		k.failed(t, a.err, now)
		return
	}
	if k.failures > 0 {
		k.log.Info("renewed again", "key", k.lease.Key, "failures", k.failures)
		k.failures = 0
	}
	k.blame(nil)
	t = k.retimed(t.late(now), a.value.TTL).renewed(sent, rand.Float64())
	k.guard.deadline(sent + t.timing.Kill)
	k.lasts(t)
	if n := a.value.Notice; asksToStop(n) {
		why := &LostError{Key: k.lease.Key, Token: k.lease.Token, Notice: n}
		t = t.noticed(why, now, ownGrace(k.grace))
		k.stopped(why)
	}
	k.write(t)
	k.prove(t, now)
}

func (k *keeper) failed(t term, err error, now time.Duration) {
	k.failures++
	k.blame(err)
	t = t.failed(err, now)
	k.write(t)
	level := slog.LevelDebug
	if k.failures == 1 && t.gone == nil {
		level = slog.LevelWarn
	}
	k.log.Log(context.Background(), level, "renewal failed",
		"key", k.lease.Key, "left", t.sent+t.timing.Term-now, "err", err)
}

// retimed follows a store that grants another TTL than before; zero: it has granted none.
// A grace that doesn't fit any more is shortened: the lease comes first.
func (k *keeper) retimed(t term, ttl time.Duration) term {
	if ttl == t.ttl || ttl == 0 {
		return t
	}
	k.log.Warn("the store changed the TTL", "key", k.lease.Key, "was", t.ttl, "ttl", ttl)
	t.ttl = ttl
	traits := k.backend.Traits()
	timing, err := TimingOf(traits, ttl, k.grace)
	if err != nil {
		trusted := traits.Trusted(ttl)
		timing = timeLine(trusted, max(graceRoom(trusted), 0))
	}
	t.timing = timing
	return t
}

// blame remembers why the last renewal failed.
func (k *keeper) blame(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.why = telling(k.why, err)
}

// lost is err as a *LostError, with who has removed the hold, or why no renewal succeeded.
func (k *keeper) lost(err error) error {
	if lost, ok := err.(*LostError); ok {
		return lost
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == ErrExpiring && k.why != nil {
		err = fmt.Errorf("%w: %w", err, k.why)
	}
	return &LostError{Key: k.lease.Key, Token: k.lease.Token, Notice: removal(err), Err: err}
}
