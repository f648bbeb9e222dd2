package backendtest_test

import (
	"context"
	"errors"
	"slices"

	"flockd/backends"
)

// resignFaults are those of a store whose leaders are asked to step down.
var resignFaults = map[string]fault{
	"takes the notice to a holder for the turn of the next": {
		caught: "ResignHandsOverToTheNext",
		wait: func(s *store, ctx context.Context, held *backends.HeldError) error {
			return s.waitOr(ctx, held, func() bool {
				line := s.line(ctx, held.Key)
				return len(line) > 0 && line[0].Notice.Kind == backends.Resign
			})
		},
	},
	"wakes nobody when one that was asked to resign lets go": {
		caught: "ResignHandsOverToTheNext",
		wait: func(s *store, ctx context.Context, held *backends.HeldError) error {
			err := s.Store.Wait(ctx, held)
			if len(held.Holders) == 1 && s.resigned(held.Holders[0].ID) {
				<-ctx.Done()
			}
			return err
		},
	},
	"lets one that resigned pass the line": {
		caught: "ResignedHolderComesLast",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			held, lease, err := s.held(ctx, req)
			if held != nil && s.someone(func(id string, p past) bool { return p.client == s.client && p.resigned() }) {
				return forged(req), nil
			}
			return lease, err
		},
	},
	"keeps the key for whoever had it resigned": {
		caught: "ResignReservesNothing",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			others := func(_ string, p past) bool {
				return p.resigned() && p.client != s.client && p.told.By.Host != req.Owner.Host
			}
			if len(s.line(ctx, req.Key)) == 0 && s.someone(others) {
				return backends.Lease{}, &backends.HeldError{Key: req.Key}
			}
			return s.Store.Acquire(ctx, req)
		},
	},
	"asks one that resigned again when it next holds": {
		caught: "ResignIsForOneHold",
		renew: func(s *store, ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
			renewal, err := s.Store.Renew(ctx, lease)
			s.someone(func(id string, p past) bool {
				again := id != lease.ID && p.client == s.client && p.resigned()
				if again && renewal.Notice == (backends.Notice{}) {
					renewal.Notice = p.told
				}
				return again
			})
			return renewal, err
		},
	},
	"finds the hold of one that has let go": {
		caught: "ResignAfterTheReleaseIsNotFound",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			err := s.Store.Ask(ctx, key, id, notice)
			if p := s.knows(id); errors.Is(err, backends.ErrNotFound) && p.granted && p.released && notice.Kind == backends.Resign {
				return nil
			}
			return err
		},
	},
	"asks the next holder where the one that is meant has let go": {
		caught: "ResignAfterTheReleaseIsNotFound",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			err := s.Store.Ask(ctx, key, id, notice)
			if line := s.line(ctx, key); errors.Is(err, backends.ErrNotFound) && s.knows(id).released && len(line) > 0 && notice.Kind == backends.Resign {
				s.Store.Ask(ctx, key, line[0].ID, notice)
			}
			return err
		},
	},
	"goes by a break though a resign comes later": {
		caught: "LatestNoticeWins",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			if s.noticeOf(ctx, key, id).Kind == backends.Break && notice.Kind == backends.Resign {
				return nil
			}
			return s.Store.Ask(ctx, key, id, notice)
		},
	},
	"forces no hold that was asked to resign": {
		caught: "ForceWinsOverAResign",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			if s.noticeOf(ctx, key, id).Kind == backends.Resign {
				notice.Force = false
			}
			return s.Store.Ask(ctx, key, id, notice)
		},
	},
	"records a resign as a break": {
		caught: "RunSaysWhoAskedForTheKey",
		release: func(s *store, ctx context.Context, key, id string, outcome backends.Outcome) error {
			if outcome.Notice.Kind == backends.Resign {
				outcome.Notice.Kind = backends.Break
			}
			return s.Store.Release(ctx, key, id, outcome)
		},
	},
	"tells when the lease in front ends once and no more": {
		caught: "FirstInLineIsGrantedWhenTheLeaseEnds",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			held, lease, err := s.held(ctx, req)
			if held != nil && s.knows(req.ID).asked {
				held.RetryAfter = 0
			}
			return lease, err
		},
	},
}

// resigned reports whether a hold was asked to resign, and has let go.
func (w *world) resigned(id string) bool { return w.knows(id).resigned() }

func (p past) resigned() bool { return p.told.Kind == backends.Resign && p.granted && p.released }

// noticeOf is what was left for the claim id, zero where there is none.
func (s *store) noticeOf(ctx context.Context, key, id string) backends.Notice {
	line := s.line(ctx, key)
	if i := slices.IndexFunc(line, func(c backends.Claim) bool { return c.ID == id }); i >= 0 {
		return line[i].Notice
	}
	return backends.Notice{}
}
