package runner

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"flockd/backends"
)

// Whoever waits for flockd to end waits for the release too.
const (
	releaseAtMost  = 5 * time.Second
	releaseAtLeast = time.Second // a lease that is over is released for the record of its run
)

// applied tells whether a release whose answer was lost has ended the hold: it recorded
// the run in the same step. It returns nil if so, lost if not, and why it can't
// tell. Where another has run since, its record is all there is: then the release is
// believed to have been in time if the lease could be trusted. Where nothing ran it
// doesn't matter.
func applied(ctx context.Context, b backends.Backend, lease backends.Lease, outcome backends.Outcome, trusted bool, lost error) error {
	if outcome == (backends.Outcome{}) {
		return nil
	}
	var status backends.Status
	err := within(ctx, askAtMost, func(ctx context.Context) (err error) {
		status, err = b.Inspect(ctx, lease.Key)
		return err
	})
	switch {
	case err != nil:
		return err
	case status.Last == nil, status.Last.Token == lease.Token && status.Last.Class == backends.Broken:
		return lost
	case status.Last.Token == lease.Token, status.Last.Token > lease.Token && trusted:
		return nil
	}
	return lost
}

// GiveBack ends the hold of a process that was killed, trying for some seconds. It
// returns backends.ErrLost if the hold was gone already, and any other error if the
// key stays taken until the lease expires.
func GiveBack(ctx context.Context, b backends.Backend, lease backends.Lease, outcome backends.Outcome) error {
	return giveBack(ctx, b, lease, outcome, releaseAtMost, slog.New(slog.DiscardHandler))
}

// release gives the lease back, trying for as long as it could last. It returns
// backends.ErrLost if the hold was gone already.
func release(ctx context.Context, b backends.Backend, lease backends.Lease, outcome backends.Outcome, left time.Duration, log *slog.Logger) error {
	began := time.Now()
	err := giveBack(ctx, b, lease, outcome, left, log)
	if err == nil || errors.Is(err, backends.ErrLost) {
		return err
	}
	if left -= time.Since(began); left > 0 {
		log.Warn("could not give the key back: it stays taken until the lease expires",
			"key", lease.Key, "left", left, "err", err)
	}
	return nil
}

func giveBack(ctx context.Context, b backends.Backend, lease backends.Lease, outcome backends.Outcome, left time.Duration, log *slog.Logger) error {
	window := max(min(left, releaseAtMost), releaseAtLeast)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), window)
	defer cancel()
	began, tried := time.Now(), false // an attempt before may have been applied
	var gone error                    // the store's word, where it isn't known whose work that was
	var why error                     // the latest that the store has said
	for backoff := backoffMin; ; backoff = min(2*backoff, backoffMax) {
		err := within(ctx, askAtMost, func(ctx context.Context) error {
			return b.Release(ctx, lease.Key, lease.ID, outcome)
		})
		if tried && errors.Is(err, backends.ErrLost) {
			gone = err
			err = applied(ctx, b, lease, outcome, left > time.Since(began), err)
		}
		if err == nil || errors.Is(err, backends.ErrLost) {
			return err
		}
		tried = true
		if ctx.Err() == nil || why == nil {
			why = err
		}
		log.Debug("release failed", "key", lease.Key, "err", err)
		pause(ctx, backoff/2+rand.N(backoff/2))
		if ctx.Err() != nil || errors.Is(err, backends.ErrRefused) {
			return cmp.Or(gone, why) // to say "finished" of one that is gone would be a guess
		}
	}
}

// release gives the lease back. A hold that is gone unexpectedly was lost while
// the command ran, unless it is proven that it wasn't.
func (r *run) release(ctx context.Context, k *keeper, res Result) Result {
	outcome := backends.Outcome{Class: string(res.Class), Exit: res.Exit.Code, Success: succeeded(res)}
	var lost *LostError
	if errors.As(res.Err, &lost) {
		outcome.Notice = lost.Notice
	}
	if res.Exit == (Exit{}) {
		outcome = backends.Outcome{} // nothing ran
	}
	err := release(ctx, r.o.Backend, k.lease, outcome, k.left(), r.o.Log)
	if err != nil && res.Class != Lost && res.Exit != (Exit{}) && !r.proven {
		res.Class, res.Err = Lost, k.lost(err)
	}
	if err != nil && errors.As(res.Err, &lost) && lost.Notice == (backends.Notice{}) {
		lost.Notice = removal(err)
	}
	return res
}
