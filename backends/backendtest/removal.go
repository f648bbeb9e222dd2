package backendtest

import "flockd/backends"

var removalProperties = []property{
	{name: "ForceRemovesAtOnce", test: forceRemoves},
	{name: "ForceForbidsTheID", test: forceForbids},
	{name: "ForceRemovesAPlace", test: forcePlace},
	{name: "RemovalOfAPlaceWakesIt", needs: Waits, test: removalWakes},
	{name: "ForcedRemovalIsRecorded", test: removalRecorded},
	{name: "ForcedRemovalKeepsTheLastSuccess", test: removalKeepsSuccess},
	{name: "ForcedRemovalOfAPlaceRecordsNothing", test: placeRecordsNothing},
	{name: "ForcedRemovalOfACoolingClaimRecordsNothing", needs: MinHolds, test: coolingRecordsNothing},
}

func forceRemoves(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	b.removes(lease)
	next := b.grant(b.request())
	a.renewIsLost(lease)
	a.releaseIsLost(e.key, lease.ID)
	b.renew(next)
}

// What an operator removed doesn't come back by asking again.
func forceForbids(e *env) {
	a, b, _ := e.trio()
	req := a.request()
	b.removes(a.grant(req))
	a.acquireIs(backends.ErrLost, req)
}

func forcePlace(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	second, third := b.queue(), c.queue()
	b.held(second)
	c.held(third)
	a.removes(backends.Lease{ID: second.ID})
	a.release(lease)
	c.grant(third)
}

// Wherever it is in line.
func removalWakes(e *env) {
	a, b, c := e.trio()
	a.grant(a.request())
	second, third := b.queue(), c.queue()
	first, last := b.wait(b.held(second)), c.wait(c.held(third))
	a.removes(backends.Lease{ID: third.ID})
	last.returns()
	first.sleepsOn("the one behind was removed")
	a.removes(backends.Lease{ID: second.ID})
	first.returns()
}

// breaks removes a claim by force; the outcome is what is recorded of a hold.
func (c client) breaks(id string) backends.Outcome {
	c.e.Helper()
	notice := c.notice(backends.Break)
	notice.Force = true
	c.ask(id, notice)
	return backends.Outcome{Class: backends.Broken, Notice: notice}
}

func removalRecorded(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	broken := b.breaks(lease.ID)
	e.isRun("last run", b.status().Last, a, lease, broken)
	a.Release(e.Context(), e.key, lease.ID, succeeded)
	e.isRun("last run after its late release", b.status().Last, a, lease, broken)
}

func removalKeepsSuccess(e *env) {
	first, success := e.run(succeeded)
	a := e.client()
	first.breaks(a.grant(a.request()).ID)
	e.isRun("last success", first.status().LastSuccess, first, success, succeeded)
}

func placeRecordsNothing(e *env) {
	a, b, _ := e.trio()
	a.grant(a.request())
	req := b.queue()
	b.held(req)
	a.breaks(req.ID)
	if last := a.status().Last; last != nil {
		e.Errorf("last run %+v of a claim that never held", last)
	}
}

// How the run came out is known, or that it isn't.
func coolingRecordsNothing(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.cools(e.long, e.long))
	a.releaseWith(lease, failed)
	b.breaks(lease.ID)
	e.isRun("last run", b.status().Last, a, lease, failed)
}
