package backendtest_test

import (
	"context"
	"errors"
	"time"

	"flockd/backends"
)

// holdFaults break what is said of one hold.
var holdFaults = map[string]fault{
	"lets its own client in": {
		caught: "ExclusiveExcludesItsOwnClient",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			var held *backends.HeldError
			if errors.As(err, &held) && len(held.Holders) == 1 && held.Holders[0].Owner == req.Owner && held.Holders[0].ID != req.ID && req.Place == 0 {
				return forged(req), nil
			}
			return lease, err
		},
	},
	"looks first and takes later": {
		caught: "RaceForANewKeyHasOneWinner",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			free := len(s.line(ctx, req.Key)) == 0
			time.Sleep(time.Nanosecond)
			lease, err := s.Store.Acquire(ctx, req)
			if errors.Is(err, backends.ErrHeld) && free && req.Place == 0 {
				return forged(req), nil
			}
			return lease, err
		},
	},
	"answers who asks again without extending": {
		caught: "AskingAgainExtends",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			if s.knows(req.ID).granted && req.Mode == backends.Exclusive && s.state(ctx, req.Key, req.ID) == backends.Holding {
				return s.lastGrant(), nil
			}
			return s.Store.Acquire(ctx, req)
		},
	},
	"counts a lease from the first ask": {
		caught: "GrantAfterWaitingLastsItsTTL",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			asked := s.firstAsked(req.ID)
			rest := req
			rest.TTL = max(1, req.TTL-time.Since(asked))
			lease, err := s.Store.Acquire(ctx, rest)
			if s.knows(req.ID).granted {
				return s.Store.Acquire(ctx, req)
			}
			lease.TTL = req.TTL
			return lease, err
		},
	},
	"gives a new token when asked again": {
		caught: "AskingAgainGivesTheSameLease",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if s.knows(req.ID).granted && req.Place == 0 {
				lease.Token++
			}
			return lease, err
		},
	},
	"takes another client for a contender": {
		caught: "AnyClientSpeaksForAnID",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if p := s.knows(req.ID); err == nil && p.asked && p.client != s.client {
				return backends.Lease{}, &backends.HeldError{Key: req.Key}
			}
			return lease, err
		},
	},
	"ends leases early": {
		caught: "LeaseLastsItsTTL",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			return s.lasting(ctx, req, req.TTL*9/10)
		},
	},
	"ends leases late": {
		caught: "LeaseEndsByItself",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			return s.lasting(ctx, req, req.TTL*11/10)
		},
	},
	"judges a lease by the TTL of who asks": {
		caught: "ContendersTTLDoesNotCount",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if errors.Is(err, backends.ErrHeld) && req.Place > 0 && time.Since(s.lastGrant().Granted) >= req.TTL {
				return forged(req), nil
			}
			return lease, err
		},
	},
	"renews for half of what it says": {
		caught: "RenewExtends",
		renew: func(s *store, ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
			renewal, err := s.Store.Renew(ctx, lease)
			if p := s.knows(lease.ID); p.client == s.client && !p.cools {
				lease.TTL /= 2
				s.Store.Renew(ctx, lease)
			}
			return renewal, err
		},
	},
	"extends only for the client that asked": {
		caught: "AnotherClientsRenewalExtends",
		renew: func(s *store, ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
			if s.knows(lease.ID).client != s.client && s.state(ctx, lease.Key, lease.ID) == backends.Holding {
				return backends.Renewal{TTL: lease.TTL}, nil
			}
			return s.Store.Renew(ctx, lease)
		},
	},
	"revives what nobody took": {
		caught: "RenewAfterTheEndIsLost",
		renew: func(s *store, ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
			renewal, err := s.Store.Renew(ctx, lease)
			if err != nil && s.knows(lease.ID).granted && len(s.line(ctx, lease.Key)) == 0 {
				if _, err := s.Store.Acquire(ctx, again(lease)); err == nil {
					return backends.Renewal{TTL: lease.TTL}, nil
				}
			}
			return renewal, err
		},
	},
	"renews what another took": {
		caught: "RenewAfterAnotherTookItIsLost",
		renew: func(s *store, ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
			renewal, err := s.Store.Renew(ctx, lease)
			if p := s.knows(lease.ID); err != nil && p.granted && !p.removed && !p.released && len(s.line(ctx, lease.Key)) > 0 {
				return backends.Renewal{TTL: lease.TTL}, nil
			}
			return renewal, err
		},
	},
	"inserts on renewal": {
		caught: "RenewNeverInserts",
		renew: func(s *store, ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
			if !s.knows(lease.ID).asked {
				s.Store.Acquire(ctx, again(lease))
				return backends.Renewal{}, backends.ErrLost
			}
			return s.Store.Renew(ctx, lease)
		},
	},
	"renews a place": {
		caught: "RenewOfAPlaceIsLost",
		renew: func(s *store, ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
			if s.state(ctx, lease.Key, lease.ID) == backends.Waiting {
				return backends.Renewal{TTL: lease.TTL}, nil
			}
			return s.Store.Renew(ctx, lease)
		},
	},
	"lets anybody release": {
		caught: "ReleaseByAnotherIsLost",
		release: func(s *store, ctx context.Context, key, id string, outcome backends.Outcome) error {
			if !s.knows(id).asked {
				s.releaseFirst(ctx, key)
			}
			return s.Store.Release(ctx, key, id, outcome)
		},
	},
	"releases whoever came next": {
		caught: "ReleaseAfterTheEndIsLost",
		release: func(s *store, ctx context.Context, key, id string, outcome backends.Outcome) error {
			err := s.Store.Release(ctx, key, id, outcome)
			if p := s.knows(id); errors.Is(err, backends.ErrLost) && p.granted && !p.removed && !p.released {
				s.releaseFirst(ctx, key)
			}
			return err
		},
	},
	"releases twice": {
		caught: "SecondReleaseIsLost",
		release: func(s *store, ctx context.Context, key, id string, outcome backends.Outcome) error {
			err := s.Store.Release(ctx, key, id, outcome)
			if p := s.knows(id); p.released && !p.explained() && len(s.line(ctx, key)) == 0 {
				return nil
			}
			return err
		},
	},
	"forgets what was released": {
		caught: "ReleasedIDIsForbidden",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if p := s.knows(req.ID); errors.Is(err, backends.ErrLost) && p.granted && p.released && !p.explained() && req.Mode == backends.Exclusive {
				if lease, err := s.reborn(ctx, req); err == nil {
					return lease, nil
				}
			}
			return lease, err
		},
	},
	"forgets what was released before it came": {
		caught: "IDReleasedBeforeItCameIsForbidden",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if p := s.knows(req.ID); errors.Is(err, backends.ErrLost) && !p.asked && req.Place == 0 {
				if lease, err := s.reborn(ctx, req); err == nil {
					return lease, nil
				}
			}
			return lease, err
		},
	},
	"forgets what was given up": {
		caught: "PlaceGivenUpIsForbidden",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if p := s.knows(req.ID); errors.Is(err, backends.ErrLost) && p.asked && !p.granted && !p.explained() && req.Mode == backends.Exclusive {
				if _, err := s.reborn(ctx, req); errors.Is(err, backends.ErrHeld) {
					return backends.Lease{}, err
				}
			}
			return lease, err
		},
	},
	"forgets what was removed": {
		caught: "ForceForbidsTheID",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if p := s.knows(req.ID); errors.Is(err, backends.ErrLost) && p.removed && !p.explained() {
				if lease, err := s.reborn(ctx, req); err == nil {
					return lease, nil
				}
			}
			return lease, err
		},
	},
	"counts anew after a release": {
		caught: "TokensGrowAcrossRelease",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			free, last := len(s.line(ctx, req.Key)) == 0, s.lastGrant()
			lease, err := s.Store.Acquire(ctx, req)
			if p := s.knows(last.ID); free && req.Place == 0 && p.released && p.client == s.client {
				lease.Token = last.Token
			}
			return lease, err
		},
	},
	"counts anew after a lease ended": {
		caught: "TokensGrowAcrossTheEndOfALease",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			free, last := len(s.line(ctx, req.Key)) == 0, s.lastGrant()
			lease, err := s.Store.Acquire(ctx, req)
			if p := s.knows(last.ID); free && p.granted && !p.released && !p.removed {
				lease.Token = last.Token
			}
			return lease, err
		},
	},
	"counts anew after a removal": {
		caught: "TokensGrowAcrossRemoval",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			free, last := len(s.line(ctx, req.Key)) == 0, s.lastGrant()
			lease, err := s.Store.Acquire(ctx, req)
			if p := s.knows(last.ID); free && p.removed && !p.explained() {
				lease.Token = last.Token
			}
			return lease, err
		},
	},
	"counts anew when it is opened": {
		caught: "TokensGrowAcrossReopening",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if s.closed.Load() {
				lease.Token = 1
			}
			return lease, err
		},
	},
	"takes two keys for one": {
		caught: "KeysStayApart",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			if req.Key == "A" {
				req.Key = "a"
			}
			return s.Store.Acquire(ctx, req)
		},
	},
}
