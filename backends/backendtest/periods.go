package backendtest

import (
	"slices"
	"time"

	"flockd/backends"
)

var periodProperties = []property{
	{name: "LeaseNamesTheRun", needs: Ledgers, test: leaseNamesRun},
	{name: "RunByPeriodIsNotRepeated", needs: Ledgers, test: periodNotRepeated},
	{name: "FailureIsRepeatedInItsPeriod", needs: Ledgers, test: failureInPeriod},
	{name: "NextPeriodHasARunOfItsOwn", needs: Ledgers, test: nextPeriod},
	{name: "PeriodIsThatOfTheGrant", needs: Ledgers, test: periodOfGrant},
}

// daily asks for a run a day, in the middle of the one that now is.
func (c client) daily() backends.Request {
	const day = 24 * time.Hour
	req := c.queue()
	now := time.Now()
	noon := now.UTC().Truncate(day).Add(day / 2)
	lead := (noon.Sub(now) + day) % day
	req.Once = &backends.Once{Per: backends.Period{Unit: backends.Day}, Lead: lead}
	return req
}

// often asks for a run every few TTLs.
func (c client) often() backends.Request {
	req := c.queue()
	req.Once = &backends.Once{Per: backends.Period{Unit: backends.Fixed, Every: 2 * c.e.h.TTL}, Keep: c.e.long}
	return req
}

// The run is chosen by the store's clock, which is near ours.
func leaseNamesRun(e *env) {
	a := e.client()
	for _, once := range []backends.Once{
		{Per: backends.Period{Unit: backends.Day}, Lead: time.Minute},
		{Per: backends.Period{Unit: backends.Day}, Zone: time.FixedZone("early", 14*60*60)},
		{Per: backends.Period{Unit: backends.Week}, Zone: time.FixedZone("late", -12*60*60)},
		{Per: backends.Period{Unit: backends.Month}, Keep: time.Hour},
		{Per: backends.Period{Unit: backends.Fixed, Every: 8 * time.Hour}, Lead: 30 * time.Second},
	} {
		req := a.queue()
		req.Once = &once
		before := time.Now()
		lease := a.grant(req)
		runs := []string{once.RunAt(before.Add(-e.patient)), once.RunAt(before), once.RunAt(time.Now().Add(e.patient))}
		if !slices.Contains(runs, lease.Run) || lease.Keep != once.KeepFor() {
			e.Errorf("run %q kept for %v, want one of %q for %v", lease.Run, lease.Keep, runs, once.KeepFor())
		}
		if again := a.grant(req); again.Run != lease.Run || again.Keep != lease.Keep {
			e.Errorf("run %q for %v when asked again, %q for %v before", again.Run, again.Keep, lease.Run, lease.Keep)
		}
		a.release(lease)
	}
}

func periodNotRepeated(e *env) {
	a, b, _ := e.trio()
	lease := a.succeeds(a.daily())
	b.acquireIs(backends.ErrDone, b.daily())
	if runs := b.entries(); !slices.Equal(runs, []string{lease.Run}) {
		e.Errorf("entries %q, want %q", runs, lease.Run)
	}
}

func failureInPeriod(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.daily())
	a.releaseWith(lease, failed)
	if next := b.grant(b.daily()); next.Run != lease.Run {
		e.Errorf("run %q, want %q again", next.Run, lease.Run)
	}
}

func nextPeriod(e *env) {
	a, b, _ := e.trio()
	first := a.succeeds(a.often())
	var next backends.Lease
	e.until("the next period", func() bool {
		var err error
		next, err = b.Acquire(e.Context(), b.often())
		if err != nil {
			e.is(err, backends.ErrDone, "Acquire")
		}
		return err == nil
	})
	if next.Run <= first.Run {
		e.Errorf("run %q after %q", next.Run, first.Run)
	}
	b.complete(next)
	if runs := a.entries(); !slices.Equal(runs, []string{first.Run, next.Run}) {
		e.Errorf("entries %q, want both", runs)
	}
}

// Not that of the question.
func periodOfGrant(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	req := b.often()
	b.held(req)
	time.Sleep(3 * e.h.TTL)
	asked := time.Now().Add(-3 * e.h.TTL)
	a.release(lease)
	if granted := b.grant(req); granted.Run <= req.Once.RunAt(asked) {
		e.Errorf("run %q, which was that of the question", granted.Run)
	}
}
