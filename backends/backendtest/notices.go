package backendtest

import "flockd/backends"

var noticeProperties = []property{
	{name: "NoticeComesWithTheNextRenewal", test: noticeComes},
	{name: "NoticeComesAgain", test: noticeAgain},
	{name: "NoticeForAPlaceKeepsItFromBeingGranted", test: noticeToWaiter},
	{name: "NoticedPlaceStaysInLine", test: noticedStays},
	{name: "NoticeForAPlaceWakesIt", needs: Waits, test: noticeWakes},
	{name: "NoticeAndGrantDoNotPassEachOther", test: noticeRacesGrant},
	{name: "SupersedeIsForWaitersAlone", test: supersedeHolder},
	{name: "SupersedeOfACoolingClaimIsNotFound", needs: MinHolds, test: supersedeCooling},
	{name: "NoticeIsForOneClaim", test: noticeForOne},
	{name: "AskOfAnUnknownClaimIsNotFound", test: askUnknown},
	{name: "AskIsOfItsKey", test: askOfKey},
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

// Those behind it wait until its owner has left.
func noticedStays(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	second, third := b.queue(), c.queue()
	b.held(second)
	c.held(third)
	notice := a.notice(backends.Break)
	a.ask(second.ID, notice)
	a.release(lease)
	if claim := a.inLine(second.ID); claim == nil || claim.Notice != notice {
		e.Errorf("shown as %+v, want the notice", claim)
	}
	b.held(second)
	if held := c.held(third); held.Ahead != 1 || held.Next == nil || held.Next.ID != second.ID {
		e.Errorf("%d ahead, next %+v; want %s next", held.Ahead, held.Next, second.ID)
	}
	b.giveUp(second)
	c.grant(third)
}

// Wherever it is in line, and no other.
func noticeWakes(e *env) {
	a, b, c := e.trio()
	a.grant(a.request())
	second, third := b.queue(), c.queue()
	first, last := b.wait(b.held(second)), c.wait(c.held(third))
	a.ask(third.ID, a.notice(backends.Break))
	last.returns()
	first.sleepsOn("the notice was for the one behind")
	a.ask(second.ID, a.notice(backends.Supersede))
	first.returns()
}

// Who is asked to go while its turn comes hears of it, before the grant or after it;
// one that is superseded isn't granted the key.
func noticeRacesGrant(e *env) {
	a, b, _ := e.trio()
	for round := range 12 {
		kind := []backends.NoticeKind{backends.Break, backends.Supersede}[round%2]
		notice := a.notice(kind)
		holder, req := a.grant(a.request()), b.queue()
		b.held(req)
		a.release(holder)
		var lease backends.Lease
		var acquired, asked error
		e.atOnce(
			round/2,
			func() { lease, acquired = b.Acquire(e.Context(), req) },
			func() { asked = a.Ask(e.Context(), e.key, req.ID, notice) },
		)
		switch {
		case acquired == nil && kind == backends.Supersede:
			e.is(asked, backends.ErrNotFound, "Ask to supersede a holder")
		case acquired == nil:
			e.is(asked, nil, "Ask")
			if got := b.renew(lease).Notice; got != notice {
				e.Errorf("the new holder got the notice %+v, want %+v", got, notice)
			}
		default:
			e.is(asked, nil, "Ask")
			if got := b.held(req).Notice; got != notice {
				e.Errorf("the waiter got the notice %+v, want %+v", got, notice)
			}
		}
		b.giveUp(req)
	}
}

// supersedeIsLate must fail, and leave nothing.
func (c client) supersedeIsLate(id string) {
	c.e.Helper()
	notice := c.notice(backends.Supersede)
	for _, notice.Force = range []bool{false, true} {
		c.e.is(c.Ask(c.e.Context(), c.e.key, id, notice), backends.ErrNotFound, "Ask")
	}
	if claim := c.inLine(id); claim == nil || claim.Notice != (backends.Notice{}) {
		c.e.Errorf("shown as %+v, want no notice", claim)
	}
}

func supersedeHolder(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	b.held(b.queue())
	b.supersedeIsLate(lease.ID)
	if got := a.renew(lease).Notice; got != (backends.Notice{}) {
		e.Errorf("the holder got the notice %+v", got)
	}
}

func supersedeCooling(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.cools(e.long, e.long))
	a.release(lease)
	b.supersedeIsLate(lease.ID)
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
	notice := b.notice(backends.Break)
	for _, notice.Force = range []bool{false, true} {
		e.is(b.Ask(e.Context(), e.key, lease.ID, notice), backends.ErrNotFound, "Ask")
	}
}

// An ID that is known, but by another key.
func askOfKey(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	b.hold("/other")
	notice := b.notice(backends.Break)
	for _, notice.Force = range []bool{false, true} {
		e.is(b.Ask(e.Context(), e.key+"/other", lease.ID, notice), backends.ErrNotFound, "Ask")
	}
	if got := a.renew(lease).Notice; got != (backends.Notice{}) {
		e.Errorf("the holder got the notice %+v", got)
	}
}
