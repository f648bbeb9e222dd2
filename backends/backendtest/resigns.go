package backendtest

import "flockd/backends"

// resignProperties: a leader that is asked to step down is told at once, and hands over to
// whoever is next, not to whoever asked.
var resignProperties = []property{
	{name: "ResignHandsOverToTheNext", needs: Waits, test: resignHandsOver},
	{name: "ResignedHolderComesLast", test: resignedComesLast},
	{name: "ResignReservesNothing", test: resignReserves},
	{name: "ResignIsForOneHold", test: resignForOneHold},
	{name: "ResignAfterTheReleaseIsNotFound", test: resignLate},
	{name: "LatestNoticeWins", test: latestNotice},
	{name: "ForceWinsOverAResign", test: forceWins},
}

// resigns is asked to, by another, hears of it and lets go.
func (c client) resigns(lease backends.Lease, by client) {
	c.e.Helper()
	by.ask(lease.ID, by.notice(backends.Resign))
	outcome := failed
	outcome.Notice = c.renew(lease).Notice
	c.releaseWith(lease, outcome)
}

// The last in line asks.
func resignHandsOver(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	second, third := b.queue(), c.queue()
	wait := b.wait(b.held(second))
	c.held(third)
	c.ask(lease.ID, c.notice(backends.Resign))
	a.renew(lease)
	wait.sleepsOn("the holder has not let go yet")
	a.release(lease)
	wait.returns()
	c.held(third)
	if granted := b.grant(second); granted.Token <= lease.Token {
		e.Errorf("token %d after %d", granted.Token, lease.Token)
	}
}

func resignedComesLast(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	second, third, again := b.queue(), c.queue(), a.queue()
	b.held(second)
	c.held(third)
	a.resigns(lease, b)
	if held := a.held(again); held.Ahead != 2 {
		e.Errorf("%d ahead of it, want 2", held.Ahead)
	}
	b.lineIs(second, third, again)
	b.release(b.grant(second))
	c.release(c.grant(third))
	a.grant(again)
}

// Where nobody is in line, the key is anybody's.
func resignReserves(e *env) {
	a, b, c := e.trio()
	a.resigns(a.grant(a.request()), b)
	c.grant(c.request())
}

// Whoever has resigned may hold again, and isn't asked once more.
func resignForOneHold(e *env) {
	a, b, _ := e.trio()
	a.resigns(a.grant(a.request()), b)
	next := a.grant(a.request())
	if got := a.renew(next).Notice; got != (backends.Notice{}) {
		e.Errorf("the next hold got the notice %+v", got)
	}
}

// Who holds by then isn't meant.
func resignLate(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	a.release(lease)
	next := b.grant(b.request())
	e.is(c.Ask(e.Context(), e.key, lease.ID, c.notice(backends.Resign)), backends.ErrNotFound, "Ask")
	if got := b.renew(next).Notice; got != (backends.Notice{}) {
		e.Errorf("the next holder got the notice %+v", got)
	}
}

// Also where it asks for less than the one before, and that was told.
func latestNotice(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	notice := b.notice(backends.Resign)
	for range 2 {
		b.ask(lease.ID, b.notice(backends.Break))
		b.ask(lease.ID, notice)
		if got := a.renew(lease).Notice; got != notice {
			e.Errorf("notice %+v, want %+v", got, notice)
		}
	}
}

func forceWins(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	b.ask(lease.ID, b.notice(backends.Resign))
	b.breaks(lease.ID)
	c.grant(c.request())
	a.renewIsLost(lease)
}
