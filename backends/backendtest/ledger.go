package backendtest

import (
	"errors"
	"fmt"
	"slices"

	"flockd/backends"
)

var ledgerProperties = []property{
	{name: "SuccessIsNotRepeated", needs: Ledgers, test: notRepeated},
	{name: "DoneLeavesNoClaim", needs: Ledgers, test: doneLeavesNothing},
	{name: "DoneIsToldThoughHeld", needs: Ledgers, test: doneThoughHeld},
	{name: "WaiterHearsThatItIsDone", needs: Ledgers, test: waiterHears},
	{name: "FailureIsRepeated", needs: Ledgers, test: failureRepeated},
	{name: "RunIsOfItsKey", needs: Ledgers, test: runOfKey},
	{name: "CompleteAfterTheEndIsLost", needs: Ledgers, test: completeAfterEnd},
	{name: "CompleteAfterReleaseIsLost", needs: Ledgers, test: completeAfterRelease},
	{name: "CompleteAfterRemovalIsLost", needs: Ledgers, test: completeAfterRemoval},
	{name: "CompleteWhileCoolingIsLost", needs: Ledgers | MinHolds, test: completeCooling},
	{name: "CompleteAndRemovalDoNotPassEachOther", needs: Ledgers, test: completeRacesRemoval},
	{name: "CompleteOfAPlaceIsLost", needs: Ledgers, test: completePlace},
	{name: "CompleteMayBeRepeated", needs: Ledgers, test: completeAgain},
	{name: "CompletedRunKeepsItsHold", needs: Ledgers, test: completedHolds},
	{name: "DoneDoesNotEndCooling", needs: Ledgers | MinHolds, test: doneKeepsCooling},
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

func completeCooling(e *env) {
	a, b, _ := e.trio()
	req := a.once("v42")
	req.TTL, req.MinHold = e.h.TTL, e.long
	lease := a.grant(req)
	b.untilGone(lease.ID)
	a.completeIsLost(lease)
}

// What is said to have been recorded has been, and nothing else.
func completeRacesRemoval(e *env) {
	a, b, _ := e.trio()
	for round := range 10 {
		run := fmt.Sprint("v", round)
		lease := a.grant(a.once(run))
		var completed error
		e.atOnce(
			round,
			func() { completed = a.ledger().Complete(e.Context(), lease) },
			func() { b.removes(lease) },
		)
		if completed != nil {
			e.is(completed, backends.ErrLost, "Complete")
		}
		if recorded := slices.Contains(a.entries(), run); recorded != (completed == nil) {
			e.Errorf("Complete = %v, but recorded: %v", completed, recorded)
		}
	}
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

// Who did the run asks again after its lease has ended.
func doneKeepsCooling(e *env) {
	a, b, _ := e.trio()
	req := a.once("v42")
	req.TTL, req.MinHold = e.h.TTL, e.long
	a.complete(a.grant(req))
	b.untilGone(req.ID)
	if lease, err := a.Acquire(e.Context(), req); err == nil {
		e.Errorf("granted %+v", lease)
	}
	b.held(b.request())
}
