package backendtest_test

import (
	"cmp"
	"context"
	"errors"

	"flockd/backends"
)

// toldFaults are those of a store that tells whom it has removed.
var toldFaults = map[string]fault{
	"tells a removed hold nothing when it asks":               tellsNothing("Acquire", wasRemovedAs(backends.Holding), "EachRemovedHoldIsToldByWhom"),
	"tells a removed hold nothing by its renewal":             tellsNothing("Renew", wasRemovedAs(backends.Holding), "EachRemovedHoldIsToldByWhom"),
	"tells a removed hold nothing when it has succeeded":      tellsNothing("Complete", wasRemovedAs(backends.Holding), "EachRemovedHoldIsToldByWhom"),
	"tells a removed hold nothing by its release":             tellsNothing("Release", wasRemovedAs(backends.Holding), "EachRemovedHoldIsToldByWhom"),
	"tells a removed place nothing":                           tellsNothing("Acquire", wasRemovedAs(backends.Waiting), "RemovedPlaceIsToldByWhom"),
	"tells a removed cooling claim nothing":                   tellsNothing("Acquire", wasRemovedAs(backends.Cooling), "RemovedCoolingClaimIsToldByWhom"),
	"tells a place that was asked to leave nothing once over": tellsNothing("Acquire", lapsedNoticed, "NoticedPlaceDoesNotComeBack"),
	"forgets by the release why a place was to leave":         tellsNothing("Acquire", leftNoticed, "NoticedPlaceIsReleased"),
	"tells of the latest removal": {
		caught: "EachRemovedHoldIsToldByWhom",
		renew: func(s *store, ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
			renewal, err := s.Store.Renew(ctx, lease)
			var removed *backends.RemovedError
			if last, _ := s.Store.Inspect(ctx, lease.Key); errors.As(err, &removed) && last.Last != nil && last.Last.Class == backends.Broken {
				err = &backends.RemovedError{Notice: last.Last.Notice}
			}
			return renewal, err
		},
	},
	"lets a place come back that was asked to leave": {
		caught: "NoticedPlaceDoesNotComeBack",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if p := s.knows(req.ID); errors.Is(err, backends.ErrLost) && lapsedNoticed(p) && !p.released {
				return s.reborn(ctx, req)
			}
			return lease, err
		},
	},
	"releases no place that was asked to leave": {
		caught: "NoticedPlaceIsReleased",
		release: func(s *store, ctx context.Context, key, id string, outcome backends.Outcome) error {
			waits := s.state(ctx, key, id) == backends.Waiting
			err := s.Store.Release(ctx, key, id, outcome)
			if told := s.knows(id).told; waits && told != (backends.Notice{}) {
				return &backends.RemovedError{Notice: told}
			}
			return err
		},
	},
	"finds no place to ask again": {
		caught: "AskingAPlaceAgainIsNoError",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			if s.knows(id).noticed() && s.state(ctx, key, id) == "" && !notice.Force {
				return backends.ErrNotFound
			}
			return s.Store.Ask(ctx, key, id, notice)
		},
	},
	"takes whatever is asked of who has left for asked before": {
		caught: "AskingAPlaceAgainIsNoError",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			err := s.Store.Ask(ctx, key, id, notice)
			if s.knows(id).noticed() {
				return nil
			}
			return err
		},
	},
	"finds no hold to remove again": {
		caught: "RemovingAHoldAgainIsNoError",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			if s.knows(id).removed {
				return backends.ErrNotFound
			}
			return s.Store.Ask(ctx, key, id, notice)
		},
	},
	"removes the next holder when asked again": {
		caught: "RemovingAHoldAgainIsNoError",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			if line := s.line(ctx, key); s.knows(id).removed && len(line) > 0 {
				id = line[0].ID
			}
			return s.Store.Ask(ctx, key, id, notice)
		},
	},
}

// tellsNothing says that the hold is gone where op should tell by whom.
func tellsNothing(op string, to func(past) bool, caught string) fault {
	hides := func(s *store, at, id string, err error) error {
		var removed *backends.RemovedError
		if at == op && errors.As(err, &removed) && to(s.knows(id)) {
			return backends.ErrLost
		}
		return err
	}
	return fault{
		caught: caught,
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			if was := s.state(ctx, key, id); notice.Force {
				s.learns(id, func(p *past) { p.endedAs = cmp.Or(p.endedAs, was) })
			}
			return s.Store.Ask(ctx, key, id, notice)
		},
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			return lease, hides(s, "Acquire", req.ID, err)
		},
		renew: func(s *store, ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
			renewal, err := s.Store.Renew(ctx, lease)
			return renewal, hides(s, "Renew", lease.ID, err)
		},
		complete: func(s *store, ctx context.Context, lease backends.Lease) error {
			return hides(s, "Complete", lease.ID, s.Store.Complete(ctx, lease))
		},
		release: func(s *store, ctx context.Context, key, id string, outcome backends.Outcome) error {
			if was := s.state(ctx, key, id); was == backends.Waiting {
				s.learns(id, func(p *past) { p.endedAs = was })
			}
			return hides(s, "Release", id, s.Store.Release(ctx, key, id, outcome))
		},
	}
}

// wasRemovedAs is the past of one that was removed by force as such.
func wasRemovedAs(state backends.State) func(past) bool {
	return func(p past) bool { return p.removed && p.endedAs == state }
}

// leftNoticed is the past of one that was asked to leave, and did.
func leftNoticed(p past) bool { return p.noticed() && p.endedAs == backends.Waiting }

// lapsedNoticed is the past of one that was asked to leave, and whose place came to its end.
func lapsedNoticed(p past) bool { return p.noticed() && p.endedAs == "" }

// noticed reports whether it was asked to leave, and not removed.
func (p past) noticed() bool { return p.told != (backends.Notice{}) && !p.removed }
