package backendtest_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest"
)

// recordFaults break what is kept beside the line.
var recordFaults = map[string]fault{
	"cools for the end of the hold only": {
		caught: "MinHoldOutlastsRelease",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			if req.TTL > TTL && req.Place == 0 && req.Mode == backends.Exclusive {
				req.MinHold = req.MinHold * 9 / 10
			}
			return s.Store.Acquire(ctx, req)
		},
	},
	"forgets to cool when a lease ends": {
		caught: "MinHoldOutlastsTheLease",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			if req.TTL == TTL {
				req.MinHold = req.MinHold * 9 / 10
			}
			return s.Store.Acquire(ctx, req)
		},
	},
	"cools from the first ask": {
		caught: "MinHoldCountsFromTheGrant",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			if req.MinHold == TTL {
				req.MinHold -= time.Since(s.firstAsked(req.ID))
			}
			return s.Store.Acquire(ctx, req)
		},
	},
	"cools for the last who shared": {
		caught: "EachMinHoldCounts",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			if req.Mode == backends.Shared {
				req.MinHold = min(req.MinHold, TTL/2)
			}
			return s.Store.Acquire(ctx, req)
		},
	},
	"tells the lease of what cools": {
		caught: "RetryAfterIsTheEndOfCooling",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			held, lease, err := s.held(ctx, req)
			if held != nil && len(held.Holders) > 0 && held.Holders[0].State == backends.Cooling {
				held.RetryAfter *= 3
			}
			return lease, err
		},
	},
	"keeps cooling claims by force": {
		caught: "ForceEndsCooling",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			if s.state(ctx, key, id) == backends.Cooling && notice.Kind != backends.Supersede && notice.Reason == "" && len(s.line(ctx, key)) == 1 {
				return nil
			}
			return s.Store.Ask(ctx, key, id, notice)
		},
	},
	"lets an ID end its own cooling": {
		caught: "AskingAgainDoesNotEndCooling",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			if p := s.knows(req.ID); !p.released && req.Once == nil && s.state(ctx, req.Key, req.ID) == backends.Cooling {
				return forged(req), nil
			}
			return s.Store.Acquire(ctx, req)
		},
	},
	"tells a notice once": {
		caught: "NoticeComesAgain",
		renew: func(s *store, ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
			renewal, err := s.Store.Renew(ctx, lease)
			if err == nil {
				s.Store.Ask(ctx, lease.Key, lease.ID, backends.Notice{})
			}
			return renewal, err
		},
	},
	"tells the holder what is for a waiter": {
		caught: "NoticeIsForOneClaim",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			if s.state(ctx, key, id) == backends.Waiting && !notice.Force && notice.Kind == backends.Break {
				s.Store.Ask(ctx, key, s.line(ctx, key)[0].ID, notice)
			}
			return s.Store.Ask(ctx, key, id, notice)
		},
	},
	"tells a removed holder nothing": {
		caught: "ForceRemovesAtOnce",
		renew: func(s *store, ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
			if p := s.knows(lease.ID); p.removed && !p.explained() && lease.Mode == backends.Exclusive {
				return backends.Renewal{TTL: lease.TTL}, nil
			}
			return s.Store.Renew(ctx, lease)
		},
	},
	"removes holders only": {
		caught: "ForceRemovesAPlace",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			if line := s.line(ctx, key); notice.Force && len(line) == 3 && line[1].ID == id && line[0].Mode == backends.Exclusive {
				return nil
			}
			return s.Store.Ask(ctx, key, id, notice)
		},
	},
	"takes notices for nobody": {
		caught: "AskOfAnUnknownClaimIsNotFound",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			if !s.knows(id).asked {
				return nil
			}
			return s.Store.Ask(ctx, key, id, notice)
		},
	},
	"takes any run for the last success": {
		caught: "FailureKeepsTheLastSuccess",
		inspect: func(s *store, ctx context.Context, key string) (backends.Status, error) {
			status, err := s.Store.Inspect(ctx, key)
			if status.LastSuccess != nil && status.Last.Class != backends.Broken {
				status.LastSuccess = status.Last
			}
			return status, err
		},
	},
	"records what did not run": {
		caught: "ReleaseWithoutOutcomeRecordsNothing",
		release: func(s *store, ctx context.Context, key, id string, outcome backends.Outcome) error {
			if status, _ := s.Store.Inspect(ctx, key); outcome.Class == "" && status.Last != nil {
				outcome.Class = "unknown"
			}
			return s.Store.Release(ctx, key, id, outcome)
		},
	},
	"records a run of a place": {
		caught: "ReleaseOfAPlaceRecordsNothing",
		release: func(s *store, ctx context.Context, key, id string, outcome backends.Outcome) error {
			if outcome.Success && s.state(ctx, key, id) == backends.Waiting {
				s.learns(id, func(p *past) { p.endedAs = backends.Waiting })
			}
			return s.Store.Release(ctx, key, id, outcome)
		},
		inspect: func(s *store, ctx context.Context, key string) (backends.Status, error) {
			status, err := s.Store.Inspect(ctx, key)
			if s.someone(func(_ string, p past) bool { return p.endedAs == backends.Waiting }) {
				status.Last = &backends.Run{}
			}
			return status, err
		},
	},
	"finds keys by a pattern": {
		caught: "ListIsByPrefixAndInOrder",
		list: func(s *store, ctx context.Context, prefix string) iter.Seq2[backends.Status, error] {
			return func(yield func(backends.Status, error) bool) {
				for status, err := range s.Store.List(ctx, "") {
					like := len(status.Key) >= len(prefix) && strings.EqualFold(status.Key[:len(prefix)], prefix)
					if (like || err != nil) && !yield(status, err) {
						return
					}
				}
			}
		},
	},
	"locks the store while a list is read": {
		caught: "ListHoldsUpNobody",
		list: func(s *store, ctx context.Context, prefix string) iter.Seq2[backends.Status, error] {
			return func(yield func(backends.Status, error) bool) {
				s.listing.Store(true)
				defer s.listing.Store(false)
				s.Store.List(ctx, prefix)(yield)
			}
		},
		renew: func(s *store, ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
			for s.listing.Load() && ctx.Err() == nil {
				time.Sleep(time.Second)
			}
			return s.Store.Renew(ctx, lease)
		},
	},
	"admits larger tokens only": {
		caught: "RegisterAdmitsEqualAndLarger",
		admit: func(s *store, ctx context.Context, resource string, token backends.Token) error {
			if highest, err := s.Store.Highest(ctx, resource); err == nil && token == highest {
				return &backends.StaleError{Resource: resource, Token: token, Highest: highest}
			}
			return s.Store.Admit(ctx, resource, token)
		},
	},
	"admits in two steps": {
		caught: "RegisterIsAtomic",
		admit: func(s *store, ctx context.Context, resource string, token backends.Token) error {
			if err := backends.CheckAdmit(resource, token); err != nil {
				return err
			}
			highest, _ := s.Store.Highest(ctx, resource)
			time.Sleep(time.Duration(1<<20 - token))
			if token < highest {
				return &backends.StaleError{Resource: resource, Token: token, Highest: highest}
			}
			return s.Store.Reset(ctx, resource, token, true)
		},
	},
	"admits what is no token": {
		caught: "RegisterRefusesNonsense",
		admit: func(s *store, ctx context.Context, resource string, token backends.Token) error {
			if token > backends.MaxToken {
				return nil
			}
			return s.Store.Admit(ctx, resource, token)
		},
	},
	"misreads newer records": {
		caught:   "NewerRecordIsRefused",
		misreads: true,
	},
	"does what it does not list": {
		caught:   "WhatIsNotListedIsRefused",
		unlisted: backendtest.SharedHolds,
	},
	"has an interface that it does not list": {
		caught:   "InterfacesAsListed",
		unlisted: backendtest.Registers,
	},
	"takes notices for what has ended": {
		caught: "AskAfterTheEndIsNotFound",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			err := s.Store.Ask(ctx, key, id, notice)
			if p := s.knows(id); p.granted && !p.released && len(s.line(ctx, key)) == 0 {
				return nil
			}
			return err
		},
	},
	"takes cooling for holding": {
		caught: "CoolingIsShown",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			var held *backends.HeldError
			if errors.As(err, &held) && len(held.Holders) > 0 {
				held.Holders[0].State = backends.Holding
			}
			return lease, err
		},
	},
	"takes what keeps the key for the lease": {
		caught: "TTLOfAHoldIsShown",
		inspect: func(s *store, ctx context.Context, key string) (backends.Status, error) {
			status, err := s.Store.Inspect(ctx, key)
			for i, c := range status.Line {
				status.Line[i].TTL = c.Expires.Sub(c.Renewed)
			}
			return status, err
		},
	},
	"does not say which token came before": {
		caught: "RegisterRefusesStale",
		admit: func(s *store, ctx context.Context, resource string, token backends.Token) error {
			err := s.Store.Admit(ctx, resource, token)
			if errors.Is(err, backends.ErrStale) && token == 1<<40+6 { // not in a crowd
				return backends.ErrStale
			}
			return err
		},
	},
}
