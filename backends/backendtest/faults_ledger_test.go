package backendtest_test

import (
	"context"
	"errors"
	"time"

	"flockd/backends"
)

// ledgerFaults break what is known of completed runs.
var ledgerFaults = map[string]fault{
	"keeps a success for ever": {
		caught: "SuccessIsForgottenInTime",
		complete: func(s *store, ctx context.Context, lease backends.Lease) error {
			if lease.Keep == 3*TTL/2 {
				lease.Keep = 0
			}
			return s.Store.Complete(ctx, lease)
		},
	},
	"keeps a success twice as long": {
		caught: "EntrySaysWhenItIsForgotten",
		complete: func(s *store, ctx context.Context, lease backends.Lease) error {
			if lease.Keep > 2*TTL {
				lease.Keep *= 2
			}
			return s.Store.Complete(ctx, lease)
		},
	},
	"takes a completion of what was removed": {
		caught: "CompleteAfterRemovalIsLost",
		complete: func(s *store, ctx context.Context, lease backends.Lease) error {
			if p := s.knows(lease.ID); p.removed && !p.explained() && len(s.line(ctx, lease.Key)) > 0 {
				return nil
			}
			return s.Store.Complete(ctx, lease)
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
			if last := s.lastGrant(); last.ID == id && last.Run == "v42" && outcome.Exit != 0 && len(s.line(ctx, key)) == 1 {
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
			if p := s.knows(lease.ID); len(s.line(ctx, lease.Key)) == 0 && !p.removed && !p.explained() {
				return nil
			}
			return err
		},
	},
	"completes for whoever holds next": {
		caught: "CompleteAfterReleaseIsLost",
		complete: func(s *store, ctx context.Context, lease backends.Lease) error {
			err := s.Store.Complete(ctx, lease)
			if p := s.knows(lease.ID); err != nil && p.released && !p.explained() {
				return s.Store.Complete(ctx, s.lastGrant())
			}
			return err
		},
	},
	"completes what cools": {
		caught: "CompleteWhileCoolingIsLost",
		complete: func(s *store, ctx context.Context, lease backends.Lease) error {
			if s.state(ctx, lease.Key, lease.ID) == backends.Cooling {
				return nil
			}
			return s.Store.Complete(ctx, lease)
		},
	},
	"looks first and completes later": {
		caught: "CompleteAndRemovalDoNotPassEachOther",
		complete: func(s *store, ctx context.Context, lease backends.Lease) error {
			held := s.state(ctx, lease.Key, lease.ID) == backends.Holding
			time.Sleep(time.Nanosecond)
			if err := s.Store.Complete(ctx, lease); !held {
				return err
			}
			return nil
		},
	},
	"records a run once in a lifetime": {
		caught: "ForgottenRunIsRecordedAgain",
		complete: func(s *store, ctx context.Context, lease backends.Lease) error {
			_, recorded := s.Store.Completed(ctx, lease.Key, lease.Run)
			err := s.Store.Complete(ctx, lease)
			if err == nil && recorded != nil && s.ran(lease.Key, lease.Run) {
				s.Store.Forget(ctx, lease.Key, lease.Run)
			}
			return err
		},
	},
	"remembers for a waiter what was forgotten": {
		caught: "WaiterRepeatsWhatWasForgotten",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if req.Once != nil && errors.Is(err, backends.ErrHeld) && s.ran(req.Key, req.Once.ID) {
				err = &backends.DoneError{Key: req.Key}
			}
			return lease, err
		},
	},
	"ends the cooling of who hears that it is done": {
		caught: "DoneDoesNotEndCooling",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if errors.Is(err, backends.ErrDone) && s.state(ctx, req.Key, req.ID) == backends.Cooling {
				s.Store.Ask(ctx, req.Key, req.ID, backends.Notice{Force: true})
			}
			return lease, err
		},
	},
	"takes two runs for one": {
		caught: "RunsStayApart",
		complete: func(s *store, ctx context.Context, lease backends.Lease) error {
			if lease.Run == "A" {
				lease.Run = "a"
			}
			return s.Store.Complete(ctx, lease)
		},
	},
	"has one run for all periods": {
		caught: "NextPeriodHasARunOfItsOwn",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if req.Once != nil && req.Once.Per.Every == 2*TTL {
				lease.Run = "this one"
			}
			return lease, err
		},
	},
	"takes the period of the question": {
		caught: "PeriodIsThatOfTheGrant",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if err == nil && req.Once != nil {
				lease.Run = req.Once.RunAt(s.firstAsked(req.ID))
			}
			return lease, err
		},
	},
	"repeats a run by period": {
		caught: "RunByPeriodIsNotRepeated",
		acquire: func(s *store, ctx context.Context, req backends.Request) (backends.Lease, error) {
			lease, err := s.Store.Acquire(ctx, req)
			if errors.Is(err, backends.ErrDone) && req.Once.Per.Unit == backends.Day && !s.knows(req.ID).asked {
				return forged(req), nil
			}
			return lease, err
		},
	},
	"records failures by period as successes": {
		caught: "FailureIsRepeatedInItsPeriod",
		release: func(s *store, ctx context.Context, key, id string, outcome backends.Outcome) error {
			if last := s.lastGrant(); last.ID == id && last.Run != "" && last.Run != "v42" && outcome.Exit != 0 {
				s.Store.Complete(ctx, last)
			}
			return s.Store.Release(ctx, key, id, outcome)
		},
	},
}

// ran reports whether the run has ever been completed.
func (w *world) ran(key, run string) bool {
	_, ok := w.runs.Load(key + run)
	return ok
}
