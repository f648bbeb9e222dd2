package backendtest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"flockd/backends"
)

// modeFaults are there once a mode, and break it alone.
var modeFaults = allFaults(
	faultsOf(backends.Exclusive, "Exclusive"), faultsOf(backends.Shared, "Shared"), faultsOf(backends.Slots, "Slot"),
	sharingFaultsOf(backends.Shared, "Shared"), sharingFaultsOf(backends.Slots, "Slot"),
)

func faultsOf(mode backends.Mode, name string) map[string]fault {
	return named(mode, name, map[string]fault{
		"lets a frozen waiter in": {caught: "Frozen%sWaiterGoesToTheEnd", acquire: grantsFrozen},
		"joins twice":             {caught: "%sClaimIsOneThoughAskedForTwiceAtOnce", acquire: joinsTwice},
		"comes back as a ghost":   {caught: "%sReleaseAndGrantDoNotPassEachOther", acquire: comesBack},
		"loses a turn given up":   {caught: "%sTurnGivenUpPassesOn", wait: losesTurn},
	})
}

func sharingFaultsOf(mode backends.Mode, name string) map[string]fault {
	return named(mode, name, map[string]fault{
		"renews all":                {caught: "%sHoldsHaveTheirOwnTTL", renew: renewsAll},
		"gives all the last TTL":    {caught: "%sHoldsHaveTheirOwnTTL", acquire: lastTTL},
		"forgets what was released": {caught: "%sIDIsForbiddenOnceReleased", acquire: forgetsReleased},
		"does not say the mode":     {caught: "%sLeaseSaysWhatWasGranted", acquire: hidesMode},
		"sends a holder to the end": {caught: "%sHolderThatAsksAgainKeepsItsLease", acquire: sendsBack},
		"gives everybody a place":   {caught: "%sTakesNoPlaceUnlessAsked", acquire: givesPlaces},
		"tells all who hold":        {caught: "%sNoticeIsForOneHolder", ask: tellsAll},
		"removes all who hold":      {caught: "%sRemovalLeavesTheOthers", ask: removesAll},
		"keeps a dead exclusive":    {caught: "DeadExclusiveStopsNoLater%s", acquire: keepsDeadExclusive},
	})
}

// named are the faults of one mode.
func named(mode backends.Mode, name string, faults map[string]fault) map[string]fault {
	of := map[string]fault{}
	for what, f := range maps.All(faults) {
		f.mode, f.caught = mode, fmt.Sprintf(f.caught, name)
		of[string(mode)+" "+what] = f
	}
	return of
}

// grantsFrozen grants the key to a waiter whose place has ended.
func grantsFrozen(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
	p := s.knows(req.ID)
	frozen := p.asked && !p.granted && !p.released && s.state(ctx, req.Key, req.ID) == ""
	lease, err := s.Store.Acquire(ctx, req)
	if frozen && req.Mode == s.mode && req.Place > 0 && errors.Is(err, backends.ErrHeld) {
		return forged(req), nil
	}
	return lease, err
}

// joinsTwice looks for the claim first and takes one later.
func joinsTwice(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
	joins := s.state(ctx, req.Key, req.ID) == "" && !s.knows(req.ID).released
	time.Sleep(time.Nanosecond)
	joined := s.state(ctx, req.Key, req.ID) == backends.Holding
	lease, err := s.Store.Acquire(ctx, req)
	if err == nil && joins && joined && req.Mode == s.mode {
		lease.Token++
	}
	return lease, err
}

// comesBack looks first whether the ID is forbidden, and takes a claim later.
func comesBack(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
	before := s.knows(req.ID).released
	time.Sleep(time.Nanosecond)
	if s.knows(req.ID).released && !before && req.Mode == s.mode {
		return s.reborn(ctx, req)
	}
	return s.Store.Acquire(ctx, req)
}

// losesTurn is a Wait that hears nothing of what comes while it is the turn of another.
func losesTurn(s *store, ctx context.Context, held *backends.HeldError) error {
	line := s.line(ctx, held.Key)
	req := s.asked(held)
	if len(line) > 0 && line[0].State == backends.Waiting && line[0].ID != req.ID && req.Mode == s.mode {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Store.Wait(ctx, held)
}

// renewsAll lets one renewal extend every hold.
func renewsAll(s *store, ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
	renewal, err := s.Store.Renew(ctx, lease)
	line := s.line(ctx, lease.Key)
	if err == nil && lease.Mode == s.mode && line[len(line)-1].Mode == backends.Exclusive {
		s.renewAll(ctx, lease.Key, lease.TTL)
	}
	return renewal, err
}

// lastTTL makes each grant's TTL that of all.
func lastTTL(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
	lease, err := s.Store.Acquire(ctx, req)
	if err == nil && req.Mode == s.mode && s.client == 3 && len(s.line(ctx, req.Key)) == 3 {
		s.renewAll(ctx, req.Key, req.TTL)
	}
	return lease, err
}

// renewAll makes everybody who holds key hold it for ttl from now.
func (s *store) renewAll(ctx context.Context, key string, ttl time.Duration) {
	for _, c := range s.line(ctx, key) {
		s.Store.Renew(ctx, backends.Lease{Key: key, ID: c.ID, TTL: ttl})
	}
}

func forgetsReleased(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
	lease, err := s.Store.Acquire(ctx, req)
	if errors.Is(err, backends.ErrLost) && req.Mode == s.mode && s.knows(req.ID).asked {
		return s.reborn(ctx, req)
	}
	return lease, err
}

func hidesMode(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
	lease, err := s.Store.Acquire(ctx, req)
	if err == nil && req.Mode == s.mode && !s.knows(req.ID).asked {
		lease.Mode = backends.Exclusive
	}
	return lease, err
}

// sendsBack lets a holder that asks again wait behind those who do.
func sendsBack(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
	line := s.line(ctx, req.Key)
	if s.knows(req.ID).granted && len(line) > 1 && line[1].State == backends.Waiting && req.Mode == s.mode {
		return backends.Lease{}, &backends.HeldError{Key: req.Key}
	}
	return s.Store.Acquire(ctx, req)
}

func givesPlaces(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
	if req.Place == 0 && req.Mode == s.mode {
		req.Place = 15 * time.Second
	}
	return s.Store.Acquire(ctx, req)
}

// tellsAll leaves the notice for one of three for all of them.
func tellsAll(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
	if s.threeHold(ctx, key) && !notice.Force {
		for _, c := range s.line(ctx, key) {
			s.Store.Ask(ctx, key, c.ID, notice)
		}
	}
	return s.Store.Ask(ctx, key, id, notice)
}

// removesAll removes all three instead of one.
func removesAll(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
	if s.threeHold(ctx, key) && notice.Force {
		for _, c := range s.line(ctx, key) {
			if c.ID != id {
				s.Store.Ask(ctx, key, c.ID, notice)
			}
		}
	}
	return s.Store.Ask(ctx, key, id, notice)
}

// threeHold reports whether three claims of the mode hold key.
func (s *store) threeHold(ctx context.Context, key string) bool {
	line := s.line(ctx, key)
	return len(line) == 3 && line[2].State == backends.Holding && line[2].Mode == s.mode
}

// keepsDeadExclusive keeps the place of an exclusive behind one that waits too long.
func keepsDeadExclusive(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
	if line := s.line(ctx, req.Key); len(line) > 1 && line[1].Mode == s.mode && req.Mode == backends.Exclusive {
		req.Place *= 3
	}
	return s.Store.Acquire(ctx, req)
}
