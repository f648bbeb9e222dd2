package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"flockd/backends"
	"flockd/runner/proof"
)

// proveWithin is how long somebody waits for the hold to be proven. Who asks gives up a
// second later.
const proveWithin = proof.AnsweredWithin - time.Second

// answers answers whoever asks whether the hold stands, until it is closed. Where that can't be,
// they have to ask the store.
func (r *run) answers(k *keeper) *proof.Server {
	server, err := r.serve(k.lease.ID, func(ctx context.Context, q proof.Question) proof.Answer {
		return k.answer(ctx, q, r.o.Clean)
	})
	if err != nil {
		r.o.Log.Debug("nobody can be answered who asks whether the hold stands", "key", k.lease.Key, "err", err)
		return nil
	}
	return server
}

// answer proves the hold to who knows it. clean: see Options; may be nil.
func (k *keeper) answer(ctx context.Context, q proof.Question, clean func(string) string) proof.Answer {
	if q.Key != k.lease.Key || q.ID != k.lease.ID || backends.Token(q.Token) != k.lease.Token {
		return proof.Answer{State: proof.Other}
	}
	ctx, cancel := context.WithTimeout(ctx, proveWithin)
	defer cancel()
	p, err := k.inquire(ctx)
	if err == nil {
		return held(k.backend.Traits(), p.timing, p.ttl, q.Least)
	}
	a := unheld(err)
	if clean != nil {
		a.Why = clean(a.Why)
	}
	return a
}

// held is the answer where a renewal has succeeded. The lease lasts from before that was asked for.
func held(traits backends.Traits, timing Timing, ttl, least time.Duration) proof.Answer {
	a := proof.Answer{State: proof.Held, Lasts: timing.ValidUntil, Monotonic: traits.Clock == backends.Monotonic, TTL: ttl}
	if least > 0 && least > a.Lasts-proof.AnsweredWithin {
		a.Never, a.Fits = least >= a.Lasts, ttlLasting(traits, least+proof.AnsweredWithin)
	}
	return a
}

// ttlLasting is the shortest TTL of which least is left after a renewal, rounded up for people.
func ttlLasting(traits backends.Traits, least time.Duration) time.Duration {
	most := 2*least + time.Minute
	ms := sort.Search(int(most/time.Millisecond), func(n int) bool {
		return timeLine(traits.Trusted(time.Duration(n)*time.Millisecond), 0).ValidUntil >= least
	})
	return roundUp(time.Duration(ms) * time.Millisecond)
}

// unheld is the answer where none has.
func unheld(err error) proof.Answer {
	var lost *LostError
	var stopping *stoppingError
	switch {
	case WasAsked(err), errors.As(err, &stopping):
		return proof.Answer{State: proof.Stopping, Why: err.Error()}
	case errors.As(err, &lost):
		return proof.Answer{State: proof.Lost, Why: err.Error()}
	}
	return proof.Answer{State: proof.Unknown, Why: err.Error()}
}

// Ask asks the flockd on this host that keeps the hold to prove it. Errors: proof.ErrNobody,
// a *proof.SilentError, or ctx's.
func Ask(ctx context.Context, q proof.Question) (proof.Answer, error) {
	boottime, monotonic := clockOf(backends.Boottime), clockOf(backends.Monotonic)
	return proof.Ask(ctx, q, func(mono bool) time.Duration {
		if mono {
			return monotonic()
		}
		return boottime()
	})
}

// Prove proves by a renewal that the hold of a key, an ID and a token stands which another
// process keeps, and disturbs that as little as it may: the rest is looked up, since to renew for
// less would take the lease from its holder, and for more would hold only until that renews.
// An error is an unknown outcome, or the store's refusal.
func Prove(ctx context.Context, b backends.Backend, lease backends.Lease, least time.Duration) (proof.Answer, error) {
	status, err := b.Inspect(ctx, lease.Key)
	if err != nil {
		return proof.Answer{}, err
	}
	i := slices.IndexFunc(status.Line, func(c backends.Claim) bool { return c.ID == lease.ID && c.State == backends.Holding })
	if i < 0 {
		return missing(ctx, b, lease)
	}
	claim := status.Line[i]
	switch {
	case claim.Token != lease.Token:
		return proof.Answer{State: proof.Other}, nil
	case asksToStop(claim.Notice): // a renewal would take note of it in the holder's stead
		return asked(claim.Notice), nil
	}
	lease.Mode, lease.Slot, lease.TTL = claim.Mode, claim.Slot, claim.TTL
	return renewed(ctx, b, lease, least)
}

// missing is the answer where the store shows no such hold. To its holder it says who has removed
// it, if somebody has.
func missing(ctx context.Context, b backends.Backend, lease backends.Lease) (proof.Answer, error) {
	lease.TTL = time.Minute // any will do: nothing is there to be renewed
	_, err := b.Renew(ctx, lease)
	switch {
	case errors.Is(err, backends.ErrLost):
		return gone(lease, err), nil
	case err == nil:
		err = errors.New("the store renews a hold that it doesn't show") // a fault of its driver
	}
	return proof.Answer{}, err
}

// gone is the answer where the store says that the hold is gone.
func gone(lease backends.Lease, err error) proof.Answer {
	return unheld(&LostError{Key: lease.Key, Token: lease.Token, Notice: removal(err), Err: backends.ErrLost})
}

// renewed is what a renewal shows in a holder's stead.
func renewed(ctx context.Context, b backends.Backend, lease backends.Lease, least time.Duration) (proof.Answer, error) {
	traits := b.Traits()
	clock := clockOf(traits.Clock)
	sent := clock()
	renewal, err := b.Renew(ctx, lease)
	switch n := renewal.Notice; {
	case errors.Is(err, backends.ErrLost):
		return gone(lease, err), nil
	case err != nil:
		return proof.Answer{}, err
	case renewal.TTL <= 0:
		return proof.Answer{}, fmt.Errorf("the store renewed for %v", renewal.TTL) // a fault of its driver
	case asksToStop(n):
		b.Ask(ctx, lease.Key, lease.ID, n) // the store takes it for told; if this fails, the holder hears of it with its own next renewal
		return asked(n), nil
	}
	a := held(traits, timeLine(traits.Trusted(renewal.TTL), 0), renewal.TTL, least)
	a.Lasts -= clock() - sent
	return a, nil
}

// asksToStop reports whether a notice asks a holder to stop: Supersede is for waiters.
func asksToStop(n backends.Notice) bool { return n.Kind != "" && n.Kind != backends.Supersede }

// asked is the answer where somebody has asked for the key.
func asked(n backends.Notice) proof.Answer { return unheld(&LostError{Notice: n}) }
