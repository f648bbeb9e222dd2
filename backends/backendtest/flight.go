package backendtest

import "flockd/backends"

// flightProperties: of those who ask for the same run one does it, and the others hear
// of its success.
var flightProperties = []property{
	{name: "SuccessWakesTheFirstInLine", needs: Ledgers | Waits, test: successWakesFirst},
	{name: "SuccessWakesThoseBehindOthers", needs: Ledgers | Waits, test: successWakesBehind},
	{name: "SuccessWakesWhoAsksByPeriod", needs: Ledgers | Waits, test: successWakesByPeriod},
	{name: "SuccessWakesThoughTheKeyCools", needs: Ledgers | Waits | MinHolds, test: successWakesCooling},
	{name: "SuccessBeforeWaitCounts", needs: Ledgers | Waits, test: successMissed},
	{name: "SuccessWakesNobodyElse", needs: Ledgers | Waits, test: successWakesNoOther},
}

// The holder still holds.
func successWakesFirst(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.once("v42"))
	req := b.once("v42")
	wait := b.wait(b.held(req))
	wait.sleepsOn("nothing has happened")
	a.complete(lease)
	wait.returns()
	b.acquireIs(backends.ErrDone, req)
	a.renew(lease)
}

func successWakesBehind(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.once("v42"))
	b.held(b.once("v43"))
	b.held(b.queue())
	c.held(c.once("v42"))
	req := c.once("v42")
	wait := c.wait(c.held(req))
	a.complete(lease)
	wait.returns()
	c.acquireIs(backends.ErrDone, req)
}

func successWakesByPeriod(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.daily())
	second, third := b.daily(), c.daily()
	first, next := b.wait(b.held(second)), c.wait(c.held(third))
	a.complete(lease)
	first.returns()
	next.returns()
	b.acquireIs(backends.ErrDone, second)
	c.acquireIs(backends.ErrDone, third)
}

// What keeps the key from the next run keeps nobody from hearing.
func successWakesCooling(e *env) {
	a, b, c := e.trio()
	req := a.once("v42")
	req.MinHold = e.long
	lease := a.grant(req)
	second, third := b.once("v42"), c.once("v42")
	first, next := b.wait(b.held(second)), c.wait(c.held(third))
	a.complete(lease)
	a.release(lease)
	first.returns()
	next.returns()
	b.acquireIs(backends.ErrDone, second)
	c.acquireIs(backends.ErrDone, third)
}

// A success between the answer and Wait counts.
func successMissed(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.once("v42"))
	b.held(b.queue())
	held := c.held(c.once("v42"))
	a.complete(lease)
	c.wait(held).returns()
}

func successWakesNoOther(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.once("v42"))
	b.held(b.queue())
	other, anyRun := c.wait(c.held(c.once("v43"))), c.wait(c.held(c.queue()))
	a.complete(lease)
	other.sleepsOn("another run was completed")
	anyRun.sleepsOn("it waits for no run")
}
