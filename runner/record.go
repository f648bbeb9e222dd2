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
// ledger. The lease is renewed meanwhile.
func (r *run) record(ctx context.Context, k *keeper, res Result) Result {
	if k.lease.Run == "" {
		return res
	}
	if err := r.complete(ctx, k); err != nil {
		res.Class, res.Err, res.Unrecorded = Lost, err, true
	}
	return res
}

// complete tries for as long as the lease would have lasted without renewals, or until
// a signal comes that ends flockd elsewhere. A reply that was lost is repaired by the
// next try. An error by the store's word is a *LostError.
func (r *run) complete(ctx context.Context, k *keeper) error {
	ledger, _ := backends.As[backends.Ledger](r.o.Backend) // see canRecord
	ctx, stop := heed(context.WithoutCancel(ctx), r.o.Signals)
	defer stop()
	end := r.clock() + k.left()
	var why error // the latest that the store has said
	for backoff := backoffMin; ; backoff = min(2*backoff, backoffMax) {
		err := within(ctx, askAtMost, func(ctx context.Context) error { return ledger.Complete(ctx, k.lease) })
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
