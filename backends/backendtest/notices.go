package backendtest

import "flockd/backends"

var noticeProperties = []property{
	{name: "NoticeComesWithTheNextRenewal", test: noticeComes},
	{name: "NoticeComesAgain", test: noticeAgain},
	{name: "NoticeForAPlaceKeepsItFromBeingGranted", test: noticeToWaiter},
	{name: "NoticeIsForOneClaim", test: noticeForOne},
	{name: "ForceRemovesAtOnce", test: forceRemoves},
	{name: "ForceForbidsTheID", test: forceForbids},
	{name: "ForceRemovesAPlace", test: forcePlace},
	{name: "AskOfAnUnknownClaimIsNotFound", test: askUnknown},
	{name: "AskAfterTheEndIsNotFound", test: askAfterEnd},
}

func (c client) notice(kind backends.NoticeKind) backends.Notice {
	return backends.Notice{Kind: kind, By: c.owner, Reason: "the disk is full"}
}

func noticeComes(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	notice := b.notice(backends.Resign)
	b.ask(lease.ID, notice)
	if claim := b.inLine(lease.ID); claim == nil || claim.Notice != notice {
		e.Errorf("shown as %+v, want the notice", claim)
	}
	if got := a.renew(lease).Notice; got != notice {
		e.Errorf("notice %+v, want %+v", got, notice)
	}
}

// The reply that brought it may have been lost.
func noticeAgain(e *env) {
	a := e.client()
	lease := a.grant(a.request())
	notice := a.notice(backends.Break)
	a.ask(lease.ID, a.notice(backends.Resign))
	a.ask(lease.ID, notice)
	a.renew(lease)
	if got := a.renew(lease).Notice; got != notice {
		e.Errorf("notice %+v the second time, want %+v", got, notice)
	}
}

func noticeToWaiter(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	req := b.queue()
	b.held(req)
	notice := a.notice(backends.Supersede)
	a.ask(req.ID, notice)
	a.release(lease)
	if got := b.held(req).Notice; got != notice {
		e.Errorf("notice %+v, want %+v", got, notice)
	}
}

func noticeForOne(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	req := b.queue()
	b.held(req)
	c.ask(req.ID, c.notice(backends.Break))
	if got := a.renew(lease).Notice; got != (backends.Notice{}) {
		e.Errorf("the holder got the waiter's notice %+v", got)
	}
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

func askUnknown(e *env) {
	a := e.client()
	a.grant(a.request())
	for _, force := range []bool{false, true} {
		err := a.Ask(e.Context(), e.key, backends.NewID(), backends.Notice{Kind: backends.Break, Force: force})
		e.is(err, backends.ErrNotFound, "Ask")
	}
	if line := a.status().Line; len(line) != 1 {
		e.Errorf("line %+v, want the holder", line)
	}
}

func askAfterEnd(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.brief())
	b.untilGone(lease.ID)
	e.is(b.Ask(e.Context(), e.key, lease.ID, b.notice(backends.Break)), backends.ErrNotFound, "Ask")
}
