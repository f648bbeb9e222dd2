//go:build linux

package bench

import (
	"context"
	"sync"
	"testing"
	"time"

	"flockd/backends"
	"flockd/runner"
)

// TestIdleWaitersAreQuiet counts what waiters ask of a store while nothing happens.
func TestIdleWaitersAreQuiet(t *testing.T) {
	t.Parallel()
	const (
		waiters = 20
		idle    = 24 * time.Second // five times at most each keeps its place
	)
	for _, s := range counters(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			holder := s.open(t)
			request := func() backends.Request {
				return backends.Request{Key: "k", ID: backends.NewID(), Mode: backends.Exclusive, TTL: 10 * time.Minute}
			}
			_, err := holder.Acquire(t.Context(), request())
			check(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			var wait, stand sync.WaitGroup
			stand.Add(waiters)
			for range waiters {
				b := s.open(t) // as each process does
				var once sync.Once
				wait.Go(func() {
					runner.Run(ctx, runner.Options{
						Backend: b, Request: request(), Wait: runner.Forever, Grace: runner.DefaultGrace,
						OnWait: func(*backends.HeldError) { once.Do(stand.Done) },
					})
				})
			}
			t.Cleanup(func() { cancel(); wait.Wait() })
			stand.Wait()
			s.listen(t, waiters)
			before, err := s.spent()
			check(t, err)
			began := time.Now()
			time.Sleep(idle)
			after, err := s.spent()
			check(t, err)
			rate := after.less(before).requests / waiters / time.Since(began).Seconds()
			t.Logf("%.2f operations a second for each waiter", rate)
			if rate > s.often || rate == 0 {
				t.Error("not what is promised")
			}
		})
	}
}
