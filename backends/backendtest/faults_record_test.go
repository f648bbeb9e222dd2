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
			if req.TTL > TTL {
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
	"keeps cooling claims by force": {
		caught: "ForceEndsCooling",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			if s.state(ctx, key, id) == backends.Cooling && notice.Kind != backends.Supersede {
				return nil
			}
			return s.Store.Ask(ctx, key, id, notice)
		},
	},
	"lets an ID end its own cooling": {
		caught: "AskingAgainDoesNotEndCooling",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			if p := s.knows(req.ID); !p.released && s.state(ctx, req.Key, req.ID) == backends.Cooling {
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
			if s.knows(lease.ID).removed {
				return backends.Renewal{TTL: lease.TTL}, nil
			}
			return s.Store.Renew(ctx, lease)
		},
	},
	"removes holders only": {
		caught: "ForceRemovesAPlace",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			if line := s.line(ctx, key); notice.Force && len(line) == 3 && line[1].ID == id {
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
	"forgets what a done run was": {
		caught: "SuccessIsNotRepeated",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if errors.Is(err, backends.ErrDone) {
				err = &backends.DoneError{Key: req.Key}
			}
			return lease, err
		},
	},
	"records failures as successes": {
		caught: "FailureIsRepeated",
		release: func(s *store, ctx context.Context, key, id string, outcome backends.Outcome) error {
			if last := s.lastGrant(); last.ID == id && last.Run == "v42" && outcome.Exit != 0 {
				s.Store.Complete(ctx, last)
			}
			return s.Store.Release(ctx, key, id, outcome)
		},
	},
	"lets who asks for a done run wait": {
		caught: "DoneIsToldThoughHeld",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			if s.entries(ctx, req.Key) > 0 && !s.knows(req.ID).asked && len(s.line(ctx, req.Key)) > 0 {
				req.Once = nil
			}
			return s.Store.Acquire(ctx, req)
		},
	},
	"completes what has ended": {
		caught: "CompleteAfterTheEndIsLost",
		complete: func(s *store, ctx context.Context, lease backends.Lease) error {
			err := s.Store.Complete(ctx, lease)
			if len(s.line(ctx, lease.Key)) == 0 && !s.knows(lease.ID).removed {
				return nil
			}
			return err
		},
	},
	"completes for whoever holds next": {
		caught: "CompleteAfterReleaseIsLost",
		complete: func(s *store, ctx context.Context, lease backends.Lease) error {
			err := s.Store.Complete(ctx, lease)
			if err != nil && s.knows(lease.ID).released {
				return s.Store.Complete(ctx, s.lastGrant())
			}
			return err
		},
	},
	"keeps a success for ever": {
		caught: "SuccessIsForgottenInTime",
		complete: func(s *store, ctx context.Context, lease backends.Lease) error {
			if lease.Keep == TTL {
				lease.Keep = 0
			}
			return s.Store.Complete(ctx, lease)
		},
	},
	"keeps a success twice as long": {
		caught: "EntrySaysWhenItIsForgotten",
		complete: func(s *store, ctx context.Context, lease backends.Lease) error {
			lease.Keep *= 2
			return s.Store.Complete(ctx, lease)
		},
	},
	"takes a completion of what was removed": {
		caught: "CompleteAfterRemovalIsLost",
		complete: func(s *store, ctx context.Context, lease backends.Lease) error {
			if s.knows(lease.ID).removed {
				return nil
			}
			return s.Store.Complete(ctx, lease)
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
			highest, _ := s.Store.Highest(ctx, resource)
			time.Sleep(time.Duration(1<<20 - token))
			if token < highest {
				return &backends.StaleError{Resource: resource, Token: token, Highest: highest}
			}
			return s.Store.Reset(ctx, resource, token, true)
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
			if p := s.knows(id); p.granted && !p.released && s.state(ctx, key, id) == "" {
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
	"does not say which token came before": {
		caught: "RegisterRefusesStale",
		admit: func(s *store, ctx context.Context, resource string, token backends.Token) error {
			err := s.Store.Admit(ctx, resource, token)
			if errors.Is(err, backends.ErrStale) {
				return backends.ErrStale
			}
			return err
		},
	},
}
