package election

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"flockd/backends"
	"flockd/runner"
)

// candidate is one call of Campaign. All but the queue belongs to its loop, which never waits
// for the store or the command.
type candidate struct {
	o       *Options
	run     func(context.Context, runner.Options) runner.Result
	signals <-chan os.Signal
	events  *queue[func()] // what the runner has to tell
	policy  policy
	state   State
	hooks   *hooks

	known    bool           // it was in line
	resigned *ResignedError // nil: nobody has told it to

	// Of the term:
	stop   context.CancelCauseFunc
	hurry  chan struct{}  // closed: see runner.Options; nil: it was
	passed chan os.Signal // for the command; nil: none runs
	began  time.Time      // when it started; zero: it hasn't

	until time.Time // see wellUntil
	or    error
}

func newCandidate(o Options) *candidate {
	o.Restart = cmp.Or(o.Restart, Always)
	return &candidate{
		o: &o, run: runner.Run, signals: o.Signals, events: newQueue[func()](), policy: policy{restart: o.Restart, ttl: o.Term.Request.TTL},
		hooks: newHooks(&o), stop: func(error) {},
	}
}

// campaign campaigns until there is a result, and waits for the hooks.
func (c *candidate) campaign(ctx context.Context) Result {
	r := c.terms(ctx)
	c.wellUntil(c.hooks.longest(), errHooks)
	ended := make(chan struct{})
	go func() {
		c.hooks.wait()
		close(ended)
	}()
	c.attend(nil, ended)
	return r
}

// terms runs one term after another until there is a result.
func (c *candidate) terms(ctx context.Context) Result {
	for {
		campaigned := time.Now()
		res, ran := c.term(ctx)
		c.state.Last = &res
		if c.over(ctx) {
			return c.ended(ctx, res)
		}
		var n next
		c.policy, n = c.policy.after(outcome{res, time.Since(campaigned), ran, c.known})
		if !n.again {
			return Result{Result: res}
		}
		if n.pause > 0 {
			c.rest(ctx, n.pause)
		}
		if c.over(ctx) {
			return c.ended(ctx, res)
		}
	}
}

// over reports whether it was told to end.
func (c *candidate) over(ctx context.Context) bool { return c.resigned != nil || ctx.Err() != nil }

// ended is the result of one that was told to.
func (c *candidate) ended(ctx context.Context, res runner.Result) Result {
	if res.Class != runner.Lost {
		res.Class, res.Err = runner.Interrupted, context.Cause(ctx)
	}
	if c.resigned == nil {
		return Result{Result: res}
	}
	if res.Class != runner.Lost {
		res.Err = c.resigned
	}
	res.Signal = c.resigned.Signal
	return Result{Result: res, Resigned: true}
}

// term campaigns once and, when elected, leads. It returns for how long the command ran.
func (c *candidate) term(ctx context.Context) (res runner.Result, ran time.Duration) {
	ctx, c.stop = context.WithCancelCause(ctx)
	defer c.stop(nil)
	c.hurry, c.began = make(chan struct{}), time.Time{}
	c.change(State{Phase: Campaigning})
	c.wellUntil(lineMoves, errSilent)
	done := make(chan struct{})
	passed := make(chan os.Signal, passedKept)
	o := c.options(passed)
	go func() {
		defer close(done)
		res = c.run(ctx, o)
	}()
	c.attend(nil, done)
	c.passed = nil
	if !c.began.IsZero() {
		ran = time.Since(c.began)
	}
	return res, ran
}

// rest waits, out of line, before the next campaign.
func (c *candidate) rest(ctx context.Context, pause time.Duration) {
	ctx, c.stop = context.WithCancelCause(ctx)
	defer c.stop(nil)
	c.change(State{Phase: Resting, Pause: pause})
	timer := time.NewTimer(pause)
	defer timer.Stop()
	c.attend(timer.C, ctx.Done())
}

// attend follows what happens until one of two channels tells the end. What happened before
// that is followed too.
func (c *candidate) attend(timer <-chan time.Time, done <-chan struct{}) {
	for over := false; !over; {
		select {
		case <-c.events.news:
		case <-timer:
			over = true
		case <-done:
			over = true
		case sig, ok := <-c.signals:
			if !ok {
				c.signals = nil
				continue
			}
			c.follow() // a command that runs may be who is meant
			c.heard(sig)
		case answer := <-c.o.Asks:
			select {
			case answer <- c.health():
			default: // whoever asked doesn't wait any more
			}
		}
		c.follow()
	}
	c.hearAll()
}

// follow follows what the runner has told.
func (c *candidate) follow() {
	for _, told := range c.events.take() {
		told()
	}
}

// change tells of a change.
func (c *candidate) change(s State) {
	s.Last = c.state.Last
	c.state = s
	if c.o.Changed != nil {
		c.o.Changed(s)
	}
}

// waits follows an answer in line, which is nil where there was none, for a reason.
func (c *candidate) waits(held *backends.HeldError, why error) {
	c.known = c.known || held != nil
	c.wellUntil(lineMoves, errSilent)
	if c.state.Phase != Campaigning || same(c.state.Held, held) && (c.state.Err == nil) == (why == nil) {
		return
	}
	c.change(State{Phase: Campaigning, Held: held, Err: why})
}

// same reports whether two answers show the same line, as far as whoever waits in it cares.
func same(a, b *backends.HeldError) bool {
	if a == nil || b == nil {
		return a == b
	}
	is := func(a, b backends.Claim) bool { return a.ID == b.ID && a.State == b.State }
	return a.Ahead == b.Ahead && a.Waiters == b.Waiters && slices.EqualFunc(a.Holders, b.Holders, is) &&
		(a.Next == nil) == (b.Next == nil) && (a.Next == nil || is(*a.Next, *b.Next))
}

// leads follows the start of the command.
func (c *candidate) leads(lease backends.Lease, began time.Time, passed chan os.Signal) {
	c.known, c.began, c.passed = true, began, passed
	c.change(State{Phase: Leading, Lease: lease})
}

// stops follows what has the command end.
func (c *candidate) stops(why error, left time.Duration) {
	c.wellUntil(left+dies, errLives)
	if c.state.Phase == Leading || c.state.Phase == Stopping && !errors.Is(why, c.state.Err) {
		c.change(State{Phase: Stopping, Lease: c.state.Lease, Err: why})
	}
}

// renewed follows a renewal.
func (c *candidate) renewed(left time.Duration) {
	if c.state.Phase != Stopping {
		c.wellUntil(left, errLeads)
	}
}

// gone follows the end of all that belonged to the command, if one ran.
func (c *candidate) gone(res runner.Result) {
	c.passed = nil
	c.wellUntil(given, errKeeps)
	if !c.began.IsZero() {
		call(c.o.Gone, res)
		c.hooks.deposed(res.Lease, deposed(res))
	}
}
