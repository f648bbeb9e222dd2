package runner

import (
	"context"
	"errors"
	"time"

	"flockd/backends"
)

func succeeded(res Result) bool { return res.Class == Finished && res.Exit.Code == 0 }

// canRecord refuses a lease whose success could not be recorded although it is to be.
func (r *run) canRecord(lease backends.Lease) error {
	if r.o.Request.Once == nil {
		return nil
	}
	if _, ok := backends.As[backends.Ledger](r.o.Backend); !ok || lease.Run == "" {
		return backends.Refuse("", "the store keeps no record of completed runs")
	}
	return nil
}

// record writes the success of a run that isn't to be repeated into the store's
// ledger. The lease is renewed meanwhile. Once it is there the command ran under the
// lock from start to end: the hold was proven after that.
func (r *run) record(ctx context.Context, k *keeper, res Result) Result {
	if k.lease.Run == "" {
		return res
	}
	if err := r.complete(ctx, k); err != nil {
		res.Class, res.Err, res.Unrecorded = Lost, err, true
		return res
	}
	r.proven = true
	return res
}

// complete is keepCompleting, whose last reply may have been lost.
func (r *run) complete(ctx context.Context, k *keeper) error {
	ledger, _ := backends.As[backends.Ledger](r.o.Backend) // see canRecord
	ctx = context.WithoutCancel(ctx)
	err := r.keepCompleting(ctx, k, ledger)
	if err != nil && !errors.Is(err, backends.ErrLost) && inLedger(ctx, ledger, k.lease, err) == nil {
		return nil
	}
	return err
}

// keepCompleting tries for as long as the lease would have lasted without renewals, or
// until a signal comes that ends flockd elsewhere, and once more then. A reply that was
// lost is repaired by the next try. An error by the store's word is a *LostError.
func (r *run) keepCompleting(ctx context.Context, k *keeper, ledger backends.Ledger) error {
	ctx, stop := heed(ctx, r.o.Signals)
	defer stop()
	last, cancel := lingering(ctx)
	defer cancel()
	end := r.clock() + k.left()
	var why error // the latest that the store has said: an attempt before may have been applied
	for backoff := backoffMin; ; backoff = min(2*backoff, backoffMax) {
		err := within(last, askAtMost, func(ctx context.Context) error { return ledger.Complete(ctx, k.lease) })
		if why != nil && errors.Is(err, backends.ErrLost) {
			err = inLedger(last, ledger, k.lease, err)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, backends.ErrLost):
			return k.lost(err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		if why == nil {
			r.o.Log.Warn("the success can't be recorded yet, trying again", "key", k.lease.Key, "run", k.lease.Run,
				"for", (end - r.clock()).Round(time.Second), "err", err)
		}
		why = telling(why, err)
		if errors.Is(err, backends.ErrRefused) || r.clock()+backoff >= end {
			return why
		}
		pause(ctx, backoff)
	}
}

// inLedger tells whether a success whose answer was lost is recorded. It returns nil if so,
// missing if not, and why it can't tell.
func inLedger(ctx context.Context, ledger backends.Ledger, lease backends.Lease, missing error) error {
	var entry backends.Entry
	err := within(ctx, leaveFor, func(ctx context.Context) (err error) {
		entry, err = ledger.Completed(ctx, lease.Key, lease.Run)
		return err
	})
	if errors.Is(err, backends.ErrNotFound) || err == nil && entry.Token != lease.Token {
		return missing
	}
	return err
}

// lingering is a context that ends leaveFor after ctx has: what was asked by then may be
// answered yet.
func lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		pause(last, leaveFor)
		cancel()
	})
	return last, func() { stop(); cancel() }
}
