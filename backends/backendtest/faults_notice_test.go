package backendtest_test

import (
	"context"
	"errors"
	"strings"
	"time"

	"flockd/backends"
)

// noticeFaults are those of a store that asks claims to stop.
var noticeFaults = map[string]fault{
	"grants a place that was asked to leave": {
		caught: "NoticeForAPlaceKeepsItFromBeingGranted",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			if line := s.line(ctx, key); len(line) > 1 && line[0].State == backends.Holding && notice.Kind == backends.Supersede {
				s.learns(id, func(p *past) { p.parted = true })
			}
			return s.Store.Ask(ctx, key, id, notice)
		},
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			held, lease, err := s.held(ctx, req)
			if held != nil && held.Next != nil && held.Next.ID == req.ID && s.knows(req.ID).parted {
				return forged(req), nil
			}
			return lease, err
		},
	},
	"passes over a place that was asked to leave": {
		caught: "NoticedPlaceStaysInLine",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			held, lease, err := s.held(ctx, req)
			if held != nil && held.Next != nil && held.Next.ID != req.ID && held.Next.Notice != (backends.Notice{}) {
				return forged(req), nil
			}
			return lease, err
		},
	},
	"wakes no place by a notice": {
		caught: "NoticeForAPlaceWakesIt",
		wait: func(s *store, ctx context.Context, held *backends.HeldError) error {
			err := s.Store.Wait(ctx, held)
			for _, c := range s.line(ctx, held.Key) {
				if c.ID == s.asked(held).ID && c.Notice != (backends.Notice{}) {
					<-ctx.Done()
				}
			}
			return err
		},
	},
	"wakes everybody by a notice": {
		caught: "NoticeForAPlaceWakesIt",
		wait: func(s *store, ctx context.Context, held *backends.HeldError) error {
			return s.waitOr(ctx, held, func() bool { return s.noticed(ctx, held.Key) })
		},
	},
	"looks first and supersedes later": {
		caught: "NoticeAndGrantDoNotPassEachOther",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			waits := s.state(ctx, key, id) == backends.Waiting
			time.Sleep(time.Nanosecond)
			err := s.Store.Ask(ctx, key, id, notice)
			if waits && errors.Is(err, backends.ErrNotFound) {
				return nil
			}
			return err
		},
	},
	"loses a notice that the grant overtakes": {
		caught: "NoticeAndGrantDoNotPassEachOther",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			waits := s.state(ctx, key, id) == backends.Waiting
			time.Sleep(time.Nanosecond)
			if waits && s.state(ctx, key, id) == backends.Holding && notice.Kind == backends.Break {
				return nil
			}
			return s.Store.Ask(ctx, key, id, notice)
		},
	},
	"lets a holder be superseded": {
		caught: "SupersedeIsForWaitersAlone",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			if line := s.line(ctx, key); len(line) > 1 && line[0].ID == id && line[0].State == backends.Holding {
				notice.Kind = backends.Resign
			}
			return s.Store.Ask(ctx, key, id, notice)
		},
	},
	"lets a cooling claim be superseded": {
		caught: "SupersedeOfACoolingClaimIsNotFound",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			if s.state(ctx, key, id) == backends.Cooling && !notice.Force {
				notice.Kind = backends.Resign
			}
			return s.Store.Ask(ctx, key, id, notice)
		},
	},
	"takes the ID of another key for one of this": {
		caught: "AskIsOfItsKey",
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			return s.Store.Ask(ctx, strings.TrimSuffix(key, "/other"), id, notice)
		},
	},
	"forgets who asked for the key": {
		caught: "RunSaysWhoAskedForTheKey",
		release: func(s *store, ctx context.Context, key, id string, outcome backends.Outcome) error {
			outcome.Notice = backends.Notice{}
			return s.Store.Release(ctx, key, id, outcome)
		},
	},
}

// noticed reports whether anybody who waits in the line of key has a notice.
func (s *store) noticed(ctx context.Context, key string) bool {
	for _, c := range s.line(ctx, key) {
		if c.State == backends.Waiting && c.Notice != (backends.Notice{}) {
			return true
		}
	}
	return false
}

// removalFaults are those of a store that removes claims by force.
var removalFaults = map[string]fault{
	"wakes no place by its removal": {
		caught: "RemovalOfAPlaceWakesIt",
		wait: func(s *store, ctx context.Context, held *backends.HeldError) error {
			err := s.Store.Wait(ctx, held)
			time.Sleep(time.Second)
			if s.knows(s.asked(held).ID).removed {
				<-ctx.Done()
			}
			return err
		},
	},
	"records no removal": {
		caught: "ForcedRemovalIsRecorded",
		inspect: func(s *store, ctx context.Context, key string) (backends.Status, error) {
			status, err := s.Store.Inspect(ctx, key)
			if status.Last != nil && status.Last.Class == backends.Broken {
				status.Last = nil
			}
			return status, err
		},
	},
	"takes a removal for the last success": {
		caught: "ForcedRemovalKeepsTheLastSuccess",
		inspect: func(s *store, ctx context.Context, key string) (backends.Status, error) {
			status, err := s.Store.Inspect(ctx, key)
			if status.Last != nil && status.Last.Class == backends.Broken {
				status.LastSuccess = status.Last
			}
			return status, err
		},
	},
	"records the removal of a place":         recordsRemoval(backends.Waiting, "ForcedRemovalOfAPlaceRecordsNothing"),
	"records the removal of a cooling claim": recordsRemoval(backends.Cooling, "ForcedRemovalOfACoolingClaimRecordsNothing"),
}

// recordsRemoval records the removal of claims that don't hold.
func recordsRemoval(of backends.State, caught string) fault {
	return fault{
		caught: caught,
		ask: func(s *store, ctx context.Context, key, id string, notice backends.Notice) error {
			if notice.Force && s.state(ctx, key, id) == of {
				s.learns(id, func(p *past) { p.endedAs = of })
			}
			return s.Store.Ask(ctx, key, id, notice)
		},
		inspect: func(s *store, ctx context.Context, key string) (backends.Status, error) {
			status, err := s.Store.Inspect(ctx, key)
			if s.someone(func(_ string, p past) bool { return p.endedAs == of }) {
				status.Last = &backends.Run{Class: backends.Broken}
			}
			return status, err
		},
	}
}
