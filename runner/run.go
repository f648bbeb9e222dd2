package runner

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"syscall"
	"time"

	"flockd/backends"
	"flockd/runner/proof"
	"flockd/runner/tree"
	"flockd/runner/tty"
)

// Run takes a hold, runs the command under it and gives it back. When it returns
// the first process of the command has ended, and if it was made to stop, every
// process of it that can be reached. The end of ctx is a wish to stop.
func Run(ctx context.Context, o Options) Result {
	clock := o.Backend.Traits().Clock
	r := &run{o: o.withDefaults(), clock: clockOf(clock), tick: tickOf(clock), plant: plant, start: startChild, serve: proof.Serve}
	res := r.run(ctx)
	if o.OnEnd != nil {
		o.OnEnd(res)
	}
	r.guard.dismiss()
	if r.tty != nil {
		letStops(r.stops)
	}
	r.tty.Close() // not before: another guard would be given whatever has its number then
	return res
}

func (o Options) withDefaults() *Options {
	o.Patience = cmp.Or(o.Patience, patience)
	o.OnLost = cmp.Or(o.OnLost, Kill)
	o.WarnSignal = cmp.Or(o.WarnSignal, syscall.SIGURG)
	o.OnUnavailable = cmp.Or(o.OnUnavailable, Fail)
	o.Request.ID = cmp.Or(o.Request.ID, backends.NewID())
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &o
}

// run is one call of Run.
type run struct {
	o     *Options
	clock func() time.Duration
	tick  time.Duration
	plant func(id string, g *guardian, stops chan<- os.Signal) (*tree.Tree, *tty.Terminal)
	start func(launch) (process, error)
	serve func(id string, answer func(context.Context, proof.Question) proof.Answer) (*proof.Server, error)
	tree  *tree.Tree     // of the command
	tty   *tty.Terminal  // of the command and us; nil: there is none
	stops chan os.Signal // what a terminal stops a job with, once we hold the key
	guard *guardian      // over it; nil: there is none
	early []os.Signal    // came before the command, and are for it

	proven bool // the hold was, after the command had ended: its success is recorded
}

// launch is the start of a command.
type launch struct {
	Command
	env   []string
	tree  *tree.Tree
	tty   *tty.Terminal
	stops chan os.Signal // see run; the child's end comes here as well
	guard *guardian      // nil: the command is to outlive us
}

func (r *run) run(ctx context.Context) Result {
	g, res := acquire(ctx, r.o, r.clock)
	r.early = g.early
	switch res.Class {
	case "":
		return r.locked(ctx, g)
	case Unavailable:
		return r.unavailable(ctx, res)
	}
	return res
}

// locked runs the command while a keeper renews its lease. The lease is given
// back when nothing is left that it is for.
func (r *run) locked(ctx context.Context, g grant) Result {
	r.o.Log.Debug("granted", grantAttrs(g.lease)...)
	r.reportTTL(g.lease)
	r.prepare(g.lease, g.sent+g.timing.Kill)
	k := &keeper{
		backend: r.o.Backend, lease: g.lease, grace: r.o.Grace, clock: r.clock, tick: r.tick, log: r.o.Log, guard: r.guard,
		warns: r.o.OnLost == Warn, onRenew: r.o.OnRenew,
	}
	end := keep(ctx, k, g.timing, g.sent)
	defer r.answers(k).Close() // not before the key has been given back: the store would say until then that the hold stands
	res := r.underLease(ctx, k)
	k.stopped(errEnded)
	r.tree.Close()
	res.Lease = g.lease
	if r.o.OnGone != nil {
		r.o.OnGone(res)
	}
	if succeeded(res) {
		res = r.record(ctx, k, res)
	}
	end()
	return r.release(ctx, k, res)
}

// prepare makes ready what holds the command under lease, which is zero where it runs
// unlocked, and starts the guard, with its first deadline. From here on somebody gives
// the key back, whatever happens to us.
func (r *run) prepare(lease backends.Lease, kill time.Duration) {
	r.guard = r.newGuard(lease)
	r.guard.deadline(kill)
	r.stops = make(chan os.Signal, 8) // of each kind more than one tells no more
	r.tree, r.tty = r.plant(lease.ID, r.guard, r.stops)
}

func plant(id string, g *guardian, stops chan<- os.Signal) (*tree.Tree, *tty.Terminal) {
	findPidfds() // or what that starts would count among our children
	t, terminal := tree.New(id), tty.Open()
	if terminal != nil && runtime.GOMAXPROCS(0) == 1 {
		runtime.GOMAXPROCS(2) // a start that Ctrl-Z stops has to be helped on by another
	}
	catchStops(terminal, stops) // before anything is started, which would be stopped halfway
	g.watch(t, terminal)
	return t, terminal
}

// newGuard prepares a guard; nil: a command that outlives its lease may outlive us as
// well.
func (r *run) newGuard(lease backends.Lease) *guardian {
	if r.o.OnLost == Warn {
		return nil
	}
	var legacy []byte
	if r.o.Legacy != nil {
		legacy = r.o.Legacy(lease)
	}
	return newGuardian(r.o.Request.Key, r.o.Backend.Traits().Clock, legacy, r.o.Log)
}

// grantAttrs say of a lease what its mode has.
func grantAttrs(l backends.Lease) []any {
	attrs := []any{"key", l.Key, "token", l.Token, "ttl", l.TTL}
	switch {
	case l.Mode == backends.Slots:
		attrs = append(attrs, "slot", l.Slot)
	case l.Mode == backends.Shared:
		attrs = append(attrs, "mode", l.Mode)
	case l.Run != "":
		attrs = append(attrs, "run", l.Run)
	}
	return attrs
}

func (r *run) reportTTL(l backends.Lease) {
	asked := r.o.Request.TTL
	level := slog.LevelInfo
	if l.TTL < asked {
		level = slog.LevelWarn
	}
	if l.TTL != asked {
		r.o.Log.Log(context.Background(), level, "the store granted another TTL", "key", l.Key, "asked", asked, "granted", l.TTL)
	}
}

// underLease runs the command, and doesn't start it if the lease went meanwhile.
func (r *run) underLease(ctx context.Context, k *keeper) Result {
	if err := r.canRecord(k.lease); err != nil {
		return Result{Class: Unavailable, Err: err}
	}
	if r.o.OnGrant != nil {
		if err := r.o.OnGrant(k.lease); err != nil {
			return Result{Class: Internal, Err: err}
		}
	}
	if err := k.standing(); err != nil {
		if unfailed(err) {
			err = k.lost(ErrPaused)
		}
		return Result{Class: Unavailable, Err: err}
	}
	return r.command(ctx, &k.lease, k)
}

// unavailable follows Options.OnUnavailable.
func (r *run) unavailable(ctx context.Context, res Result) Result {
	switch r.o.OnUnavailable {
	case Skip:
		res.Class = Skipped
	case RunUnlocked:
		r.o.Log.Warn("running without the lock", "key", r.o.Request.Key, "err", res.Err)
		why := res.Err
		r.prepare(backends.Lease{}, never)
		res = r.command(ctx, nil, nil)
		r.tree.Close()
		res.Unlocked = true
		res.Err = cmp.Or(res.Err, why)
	}
	return res
}

// command starts the command and watches over it; k is nil if it has no lease.
func (r *run) command(ctx context.Context, lease *backends.Lease, k *keeper) Result {
	early := append(r.early, pending(r.o.Signals)...)
	p, err := r.start(launch{r.o.Command, environ(r.o, r.o.Command, lease), r.tree, r.tty, r.stops, r.guard})
	if err != nil {
		return Result{Class: NotStarted, Err: err}
	}
	r.o.Log.Debug("the command runs", "key", r.o.Request.Key, "containment", p.containment())
	if r.o.OnStart != nil {
		var under backends.Lease
		if lease != nil {
			under = *lease
		}
		r.o.OnStart(under)
	}
	s := r.supervision(p, k)
	s.beside = r.accompany(lease)
	for _, sig := range early { // no terminal has sent them to a command that wasn't there
		s.passEarly(sig)
	}
	exit := s.watch(ctx)
	r.guard.over()
	if k != nil {
		s.lost = r.verdict(k, s.lost)
	}
	if s.stopping || r.guard.late() { // it was killed, perhaps: by us, or by the guard
		r.tty.GiveBack()
	}
	return s.result(exit)
}

// verdict says why the lease was lost, or nil: it stood until the command had ended.
// lost is what the keeper has told by then. After a pause the command's end may be seen
// before that; and where a renewal has succeeded meanwhile, the guard has acted all
// the same.
func (r *run) verdict(k *keeper, lost error) error {
	if lost == nil {
		lost = k.standing()
	}
	if r.guard.late() && (lost == nil || unfailed(lost)) {
		return k.lost(ErrPaused)
	}
	return lost
}

// unfailed reports whether a lease ran out though no renewal had failed.
func unfailed(lost error) bool { return errors.Unwrap(lost) == ErrExpiring }

func (r *run) supervision(p process, k *keeper) *supervision {
	s := &supervision{
		process: p, clock: r.clock, tick: r.tick, signals: r.o.Signals, hurry: r.o.Hurry, log: r.o.Log.With("key", r.o.Request.Key),
		suspend:    func(sig syscall.Signal) (did, woken bool) { return r.suspend(k, p, sig) },
		maxRuntime: r.o.MaxRuntime, killAfter: ownGrace(r.o.Grace), leftovers: r.o.Leftovers, onLeft: r.o.OnLeft, onTold: r.o.OnStop,
	}
	if k != nil {
		s.stops, s.onStop = k.stops, k.stopped
	}
	if r.o.OnLost == Warn {
		s.warn = r.o.WarnSignal
	}
	return s
}

// result names how the command came out. Whatever else happened, a lost lease
// is what the user must know.
func (s *supervision) result(e Exit) Result {
	res := Result{Class: Finished, Exit: e, Signal: s.diedOf(e)}
	switch {
	case s.lost != nil:
		res.Class, res.Err = Lost, s.lost
	case s.tooLong:
		res.Class = MaxRuntime
	case s.canceled != nil:
		res.Class, res.Err = Interrupted, s.canceled
	}
	return res
}
