package backendtest

import (
	"errors"
	"slices"
	"time"

	"flockd/backends"
)

var ledgerProperties = []property{
	{name: "SuccessIsNotRepeated", needs: Ledgers, test: notRepeated},
	{name: "DoneLeavesNoClaim", needs: Ledgers, test: doneLeavesNothing},
	{name: "DoneIsToldThoughHeld", needs: Ledgers, test: doneThoughHeld},
	{name: "WaiterHearsThatItIsDone", needs: Ledgers, test: waiterHears},
	{name: "FailureIsRepeated", needs: Ledgers, test: failureRepeated},
	{name: "RunIsOfItsKey", needs: Ledgers, test: runOfKey},
	{name: "LeaseNamesTheRun", needs: Ledgers, test: leaseNamesRun},
	{name: "CompleteAfterTheEndIsLost", needs: Ledgers, test: completeAfterEnd},
	{name: "CompleteAfterReleaseIsLost", needs: Ledgers, test: completeAfterRelease},
	{name: "CompleteAfterRemovalIsLost", needs: Ledgers, test: completeAfterRemoval},
	{name: "CompleteOfAPlaceIsLost", needs: Ledgers, test: completePlace},
	{name: "CompleteMayBeRepeated", needs: Ledgers, test: completeAgain},
	{name: "CompletedRunKeepsItsHold", needs: Ledgers, test: completedHolds},
	{name: "SuccessIsForgottenInTime", needs: Ledgers, test: forgottenInTime},
	{name: "EntrySaysWhenItIsForgotten", needs: Ledgers | Dates, test: saysWhenForgotten},
	{name: "ForgottenRunIsRepeated", needs: Ledgers, test: forgetRepeats},
	{name: "EntriesAreOldestFirst", needs: Ledgers, test: oldestFirst},
}

func (c client) ledger() backends.Ledger {
	ledger, _ := backends.As[backends.Ledger](c.Backend)
	return ledger
}

// once asks for a run that isn't repeated.
func (c client) once(run string) backends.Request {
	req := c.queue()
	req.Once = &backends.Once{ID: run}
	return req
}

// succeeds runs what req asks for.
func (c client) succeeds(req backends.Request) backends.Lease {
	c.e.Helper()
	lease := c.grant(req)
	c.complete(lease)
	c.release(lease)
	return lease
}

func (c client) complete(lease backends.Lease) {
	c.e.Helper()
	if err := c.ledger().Complete(c.e.Context(), lease); err != nil {
		c.e.Fatalf("Complete = %v", err)
	}
}

// completeIsLost must fail, and record nothing.
func (c client) completeIsLost(lease backends.Lease) {
	c.e.Helper()
	c.e.is(c.ledger().Complete(c.e.Context(), lease), backends.ErrLost, "Complete")
	_, err := c.ledger().Completed(c.e.Context(), c.e.key, lease.Run)
	c.e.is(err, backends.ErrNotFound, "Completed")
}

func notRepeated(e *env) {
	a, b, _ := e.trio()
	lease := a.succeeds(a.once("v42"))
	_, err := b.Acquire(e.Context(), b.once("v42"))
	var done *backends.DoneError
	if !errors.As(err, &done) || !errors.Is(err, backends.ErrDone) {
		e.Fatalf("Acquire = %v, want a DoneError", err)
	}
	want := backends.Entry{Run: "v42", Token: lease.Token, Owner: a.owner, At: done.Entry.At}
	if done.Key != e.key || done.Entry != want {
		e.Errorf("%q done by %+v, want %+v", done.Key, done.Entry, want)
	}
	if entry, err := b.ledger().Completed(e.Context(), e.key, "v42"); err != nil || entry.Token != lease.Token {
		e.Errorf("Completed = %+v, %v", entry, err)
	}
	b.grant(b.once("v43"))
}

func doneLeavesNothing(e *env) {
	a, b, _ := e.trio()
	a.succeeds(a.once("v42"))
	b.acquireIs(backends.ErrDone, b.once("v42"))
	if line := a.status().Line; len(line) > 0 {
		e.Errorf("line %+v, want none", line)
	}
}

// Who asks for what is done need not wait for another run to end.
func doneThoughHeld(e *env) {
	a, b, _ := e.trio()
	a.succeeds(a.once("v42"))
	a.grant(a.once("v43"))
	b.acquireIs(backends.ErrDone, b.once("v42"))
}

// What is done while one waits for it needs no turn, and the place goes.
func waiterHears(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.once("v42"))
	second, third := b.once("v42"), c.queue()
	b.held(second)
	c.held(third)
	a.complete(lease)
	b.acquireIs(backends.ErrDone, second)
	a.release(lease)
	c.grant(third)
}

func failureRepeated(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.once("v42"))
	a.releaseWith(lease, failed)
	b.grant(b.once("v42"))
}

func runOfKey(e *env) {
	a := e.client()
	a.succeeds(a.once("v42"))
	req := a.once("v42")
	req.Key += "/other"
	a.grant(req)
}

// The run is chosen at the grant, by the store's clock.
func leaseNamesRun(e *env) {
	a := e.client()
	req := a.queue()
	req.Once = &backends.Once{Per: backends.Period{Unit: backends.Day}, Lead: time.Minute}
	before := time.Now()
	lease := a.grant(req)
	runs := []string{req.Once.RunAt(before.Add(-e.patient)), req.Once.RunAt(before), req.Once.RunAt(time.Now().Add(e.patient))}
	if !slices.Contains(runs, lease.Run) || lease.Keep != req.Once.KeepFor() {
		e.Errorf("run %q kept for %v, want one of %q for %v", lease.Run, lease.Keep, runs, req.Once.KeepFor())
	}
	if again := a.grant(req); again.Run != lease.Run || again.Keep != lease.Keep {
		e.Errorf("run %q for %v when asked again, %q for %v before", again.Run, again.Keep, lease.Run, lease.Keep)
	}
}

func completeAfterEnd(e *env) {
	a, b, _ := e.trio()
	req := a.once("v42")
	req.TTL = e.h.TTL
	lease := a.grant(req)
	b.untilGone(lease.ID)
	a.completeIsLost(lease)
}

func completeAfterRelease(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.once("v42"))
	a.release(lease)
	b.grant(b.once("v42"))
	a.completeIsLost(lease)
}

func completeAfterRemoval(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.once("v42"))
	b.removes(lease)
	a.completeIsLost(lease)
	b.grant(b.once("v42"))
	a.completeIsLost(lease)
}

func completePlace(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	req := b.once("v42")
	b.held(req)
	lease.ID, lease.Run = req.ID, "v42"
	b.completeIsLost(lease)
}

// Its reply may have been lost.
func completeAgain(e *env) {
	a := e.client()
	lease := a.grant(a.once("v42"))
	a.complete(lease)
	a.complete(lease)
	if runs := a.entries(); !slices.Equal(runs, []string{"v42"}) {
		e.Errorf("entries %q, want one", runs)
	}
}

// A holder that asks again isn't told that it is done, by itself.
func completedHolds(e *env) {
	a := e.client()
	req := a.once("v42")
	lease := a.grant(req)
	a.complete(lease)
	a.grant(req)
	a.renew(lease)
	a.release(lease)
}

func forgottenInTime(e *env) {
	a, b, _ := e.trio()
	req, again := a.once("v42"), b.once("v42")
	req.Once.Keep = e.h.TTL
	start := time.Now()
	a.succeeds(req)
	b.acquireIs(backends.ErrDone, b.once("v42"))
	e.until("the run is forgotten", func() bool {
		_, err := b.ledger().Completed(e.Context(), e.key, "v42")
		return errors.Is(err, backends.ErrNotFound)
	})
	e.notBefore(start, req.Once.Keep, time.Now(), "forgotten")
	b.grant(again)
}

func saysWhenForgotten(e *env) {
	a := e.client()
	req := a.once("v42")
	req.Once.Keep = e.long
	a.succeeds(req)
	for entry, err := range a.ledger().Entries(e.Context(), e.key) {
		if kept := entry.Forgets.Sub(entry.At); err != nil || kept != e.long {
			e.Errorf("kept for %v (%+v, %v), want %v", kept, entry, err, e.long)
		}
	}
}

func forgetRepeats(e *env) {
	a := e.client()
	e.is(a.ledger().Forget(e.Context(), e.key, "v42"), backends.ErrNotFound, "Forget")
	a.succeeds(a.once("v42"))
	if err := a.ledger().Forget(e.Context(), e.key, "v42"); err != nil {
		e.Errorf("Forget = %v", err)
	}
	a.succeeds(a.once("v42"))
}

// entries are the key's completed runs.
func (c client) entries() (runs []string) {
	c.e.Helper()
	for entry, err := range c.ledger().Entries(c.e.Context(), c.e.key) {
		if err != nil {
			c.e.Fatalf("Entries = %v", err)
		}
		runs = append(runs, entry.Run)
	}
	return runs
}

func oldestFirst(e *env) {
	a := e.client()
	want := []string{"b", "a", "c/%*", "вчера"}
	for _, run := range want {
		a.succeeds(a.once(run))
	}
	if runs := a.entries(); !slices.Equal(runs, want) {
		e.Errorf("entries %q, want %q", runs, want)
	}
}
