package backendtest

import (
	"errors"

	"flockd/backends"
)

// toldProperties: who was asked to leave the line, or was removed, is told by whom, and
// doesn't come back.
var toldProperties = []property{
	{name: "NoticedPlaceDoesNotComeBack", test: noticedEnds},
	{name: "NoticedPlaceIsReleased", test: noticedLeaves},
	{name: "EachRemovedHoldIsToldByWhom", test: holdsTold},
	{name: "RemovedPlaceIsToldByWhom", test: placeTold},
	{name: "RemovedCoolingClaimIsToldByWhom", needs: MinHolds, test: coolingTold},
	{name: "AskingAPlaceAgainIsNoError", test: askPlaceAgain},
	{name: "RemovingAHoldAgainIsNoError", test: removeAgain},
}

// isTold: whatever is asked for the ID of req must be answered by the notice.
func (c client) isTold(req backends.Request, notice backends.Notice) {
	c.e.Helper()
	lease := backends.Lease{Key: req.Key, ID: req.ID, Mode: req.Mode, TTL: req.TTL, Run: "v42"}
	told := func(op string, err error) {
		c.e.Helper()
		var removed *backends.RemovedError
		if !errors.As(err, &removed) || removed.Notice != notice || !errors.Is(err, backends.ErrLost) {
			c.e.Errorf("%s = %v (%+v), want %+v", op, err, removed, notice)
		}
	}
	_, err := c.Acquire(c.e.Context(), req)
	told("Acquire", err)
	_, err = c.Renew(c.e.Context(), lease)
	told("Renew", err)
	if c.e.h.Has&Ledgers != 0 {
		told("Complete", c.ledger().Complete(c.e.Context(), lease))
	}
	told("Release", c.Release(c.e.Context(), req.Key, req.ID, backends.Outcome{}))
	_, err = c.Acquire(c.e.Context(), req)
	told("Acquire after the release", err)
}

// Its owner was frozen, and wakes when the place has ended.
func noticedEnds(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	req, next := b.queue(), c.queue()
	req.Place = e.h.TTL
	b.held(req)
	c.held(next)
	notice := a.notice(backends.Break)
	a.ask(req.ID, notice)
	c.untilGone(req.ID)
	b.isTold(req, notice)
	a.release(lease)
	c.release(c.grant(next))
	b.isTold(req, notice)
}

func noticedLeaves(e *env) {
	a, b, _ := e.trio()
	a.grant(a.request())
	req := b.queue()
	b.held(req)
	notice := a.notice(backends.Supersede)
	a.ask(req.ID, notice)
	if err := b.Release(e.Context(), req.Key, req.ID, backends.Outcome{}); err != nil {
		e.Errorf("Release = %v", err)
	}
	b.isTold(req, notice)
}

// Two holds, and a run of another's in between.
func holdsTold(e *env) {
	a, b, c := e.trio()
	first, second := a.request(), b.request()
	a.grant(first)
	byB := b.breaks(first.ID).Notice
	c.releaseWith(c.grant(c.request()), succeeded)
	b.grant(second)
	byC := c.breaks(second.ID).Notice
	a.isTold(first, byB)
	b.isTold(second, byC)
}

func placeTold(e *env) {
	a, b, _ := e.trio()
	a.grant(a.request())
	req := b.queue()
	b.held(req)
	b.isTold(req, a.breaks(req.ID).Notice)
}

func coolingTold(e *env) {
	a, b, _ := e.trio()
	req := a.cools(e.long, e.long)
	a.release(a.grant(req))
	a.isTold(req, b.breaks(req.ID).Notice)
}

// The reply may have been lost; its owner may have left since.
func askPlaceAgain(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	req, next := b.queue(), c.queue()
	b.held(req)
	c.held(next)
	notice := a.notice(backends.Supersede)
	a.ask(req.ID, notice)
	a.ask(req.ID, notice)
	b.giveUp(req)
	a.ask(req.ID, notice)
	e.is(c.Ask(e.Context(), e.key, req.ID, c.notice(backends.Break)), backends.ErrNotFound, "Ask for something else")
	a.lineIs(backends.Request{ID: lease.ID}, next)
	if got := c.held(next).Notice; got != (backends.Notice{}) {
		e.Errorf("the one behind got the notice %+v", got)
	}
}

// Who holds by then isn't meant.
func removeAgain(e *env) {
	a, b, c := e.trio()
	lease := a.grant(a.request())
	c.breaks(lease.ID)
	c.breaks(lease.ID)
	next := b.grant(b.request())
	c.breaks(lease.ID)
	if got := b.renew(next).Notice; got != (backends.Notice{}) {
		e.Errorf("the next holder got the notice %+v", got)
	}
	b.releaseWith(next, succeeded)
	c.breaks(lease.ID)
	e.isRun("last run", c.status().Last, b, next, succeeded)
}
