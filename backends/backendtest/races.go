package backendtest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"flockd/backends"
)

var raceProperties = []property{
	{name: "RaceForANewKeyHasOneWinner", test: raceForNewKey},
	{name: "RaceForAPlaceGivesEachItsOwn", test: raceForPlace},
	{name: "HoldersNeverMeet", test: neverMeet},
}

const racers = 20

// Nobody gets an error of the store's for having come first at the same time.
func raceForNewKey(e *env) {
	var granted atomic.Int32
	e.race(racers, func(c client) {
		_, err := c.Acquire(e.Context(), c.request())
		switch {
		case err == nil:
			granted.Add(1)
		case !errors.Is(err, backends.ErrHeld):
			e.Errorf("Acquire = %v", err)
		}
	})
	if n := granted.Load(); n != 1 {
		e.Errorf("%d grants", n)
	}
}

// race runs f for n clients at once.
func (e *env) race(n int, f func(c client)) {
	start := make(chan struct{})
	var all sync.WaitGroup
	for range n {
		c := e.client()
		all.Go(func() {
			<-start
			f(c)
		})
	}
	close(start)
	all.Wait()
}

func raceForPlace(e *env) {
	var mu sync.Mutex
	ahead := map[int]int{}
	e.race(racers, func(c client) {
		_, err := c.Acquire(e.Context(), c.queue())
		var held *backends.HeldError
		if errors.As(err, &held) {
			mu.Lock()
			defer mu.Unlock()
			ahead[held.Ahead]++
		} else if err != nil {
			e.Errorf("Acquire = %v", err)
		}
	})
	for n := range racers - 1 {
		if ahead[n] != 1 {
			e.Errorf("%d waiters have %d ahead of them", ahead[n], n)
		}
	}
	if line := e.client().status().Line; len(line) != racers {
		e.Errorf("%d claims in line, want %d", len(line), racers)
	}
}

// Each of many hand-overs has one holder at a time, with a larger token.
func neverMeet(e *env) {
	const clients, rounds = 8, 6
	var holders atomic.Int32
	var last backends.Token // the holders' own
	e.race(clients, func(c client) {
		for range rounds {
			lease, err := c.stand(c.queue())
			if err != nil {
				e.Errorf("Acquire = %v", err)
				return
			}
			if n := holders.Add(1); n != 1 {
				e.Errorf("%d holders at once", n)
			}
			e.above(lease.Token, last)
			last = lease.Token
			time.Sleep(time.Millisecond)
			holders.Add(-1)
			if err := c.Release(e.Context(), lease.Key, lease.ID, succeeded); err != nil {
				e.Errorf("Release = %v", err)
			}
		}
	})
}

// stand asks until it is granted, with hints where there are any, for as long as
// is reasonable.
func (c client) stand(req backends.Request) (backends.Lease, error) {
	waiter, _ := backends.As[backends.Waiter](c.Backend)
	for end := time.Now().Add(3 * c.e.patient); ; {
		lease, err := c.Acquire(c.e.Context(), req)
		var held *backends.HeldError
		if !errors.As(err, &held) || time.Now().After(end) {
			return lease, err
		}
		ctx, cancel := context.WithTimeout(c.e.Context(), 50*time.Millisecond)
		if waiter == nil {
			<-ctx.Done()
		} else {
			waiter.Wait(ctx, held)
		}
		cancel()
	}
}
