package cmd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"flockd/backends"
	"flockd/runner"
)

const (
	queryPatience = 5 * time.Second        // as long as a run that doesn't wait
	queryAtMost   = 2 * time.Second        // one question
	queryLastWord = 100 * time.Millisecond // for an answer that says why it is late
	queryPauseMin = 50 * time.Millisecond
	queryPauseMax = time.Second
)

// errUnused says that nobody has used the store yet: no run has made it.
var errUnused = errors.New("the store has not been used")

// ask asks the store, again while it gives no answer. Errors: errUnused,
// backends.ErrNotFound of do, and failures of the user's or the store's.
func ask[T any](ctx context.Context, q *query, do func(context.Context, backends.Backend) (T, error)) (T, error) {
	limit := time.NewTimer(queryPatience)
	defer limit.Stop()
	for pause := queryPauseMin; ; pause = min(2*pause, queryPauseMax) {
		answer, err := askOnce(ctx, q, do)
		if err == nil || isFinal(err) {
			return answer, q.explained(err)
		}
		select {
		case <-limit.C:
			return answer, q.explained(err)
		case <-ctx.Done():
			return answer, q.explained(err)
		case <-time.After(pause):
		}
	}
}

// change is ask for what changes something. again says that an attempt before had no
// answer: backends.ErrNotFound may be its doing.
func change(ctx context.Context, q *query, do func(context.Context, backends.Backend) (struct{}, error)) (again bool, err error) {
	var attempts atomic.Int32
	_, err = ask(ctx, q, func(ctx context.Context, b backends.Backend) (struct{}, error) {
		attempts.Add(1)
		return do(ctx, b)
	})
	return attempts.Load() > 1, err
}

// askOnce doesn't wait for a store that hangs.
func askOnce[T any](ctx context.Context, q *query, do func(context.Context, backends.Backend) (T, error)) (answer T, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryAtMost)
	defer cancel()
	b, err := q.opened(ctx)
	if err != nil {
		return answer, err
	}
	type result struct {
		answer T
		err    error
	}
	done := make(chan result, 1)
	go func() {
		answer, err := do(ctx, b)
		done <- result{answer, err}
	}()
	select {
	case r := <-done:
		return r.answer, q.answered(r.err)
	case <-ctx.Done():
	}
	select {
	case r := <-done: // it knows better what it waited for
		return r.answer, q.answered(r.err)
	case <-time.After(queryLastWord):
		return answer, fmt.Errorf("no answer within %v", queryAtMost)
	}
}

// poll calls look until that is done or fails, for limit at most (runner.Forever: without one), and
// less and less often. It looks once more when the limit has come.
func poll(ctx context.Context, limit time.Duration, look func() (done bool, err error)) (bool, error) {
	began := time.Now()
	for pause := queryPauseMin; ; pause = min(2*pause, queryPauseMax) {
		done, err := look()
		if done || err != nil {
			return done, err
		}
		if limit != runner.Forever {
			pause = min(pause, limit-time.Since(began))
		}
		if pause <= 0 {
			return false, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

func (q *query) opened(ctx context.Context) (backends.Backend, error) {
	b, err := q.store.open(ctx)
	q.unused = nil
	errors.As(err, &q.unused)
	if errors.Is(err, backends.ErrNotFound) {
		return nil, errUnused
	}
	return b, err
}

// answered is the err of a request. Some stores see only then that nobody has used them.
func (q *query) answered(err error) error {
	if errors.As(err, &q.unused) {
		return errUnused
	}
	return err
}

// isFinal reports whether it is of no use to ask again.
func isFinal(err error) bool {
	for _, final := range []error{errUnused, backends.ErrNotFound, backends.ErrStale, backends.ErrRefused, errNoLedger, errNoRegister} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// explained is err for the user.
func (q *query) explained(err error) error {
	var bad *backends.URLError
	switch {
	case err == nil, isNotThere(err), errors.Is(err, backends.ErrStale):
		return err
	case errors.Is(err, errNoLedger), errors.Is(err, errNoRegister):
		return &failure{runner.Unavailable, fmt.Errorf("the store %s %w", q.url, err), ""}
	case errors.As(err, &bad):
		return badBackend(backendNamed(q.settings.backend.from), bad)
	}
	return &failure{runner.Unavailable, fmt.Errorf("the store %s is unavailable: %w", q.url, err), ""}
}

// isNotThere reports whether err says that there is no such thing, be it that no run has
// made the store yet.
func isNotThere(err error) bool {
	return errors.Is(err, errUnused) || errors.Is(err, backends.ErrNotFound)
}
