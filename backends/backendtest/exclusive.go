package backendtest

import (
	"context"
	"errors"
	"time"

	"flockd/backends"
)

var exclusiveProperties = []property{
	{name: "ExclusiveExcludesOtherClients", test: excludesOthers},
	{name: "ExclusiveExcludesItsOwnClient", test: excludesItself},
	{name: "LeaseSaysWhatWasGranted", test: leaseTells},
	{name: "AskingAgainGivesTheSameLease", test: askingAgain},
	{name: "AskingAgainExtends", test: askingAgainExtends},
	{name: "AnyClientSpeaksForAnID", needs: portable, test: anyClient},
	{name: "LeaseLastsItsTTL", test: lasts},
	{name: "LeaseEndsByItself", test: endsByItself},
	{name: "ContendersTTLDoesNotCount", test: contendersTTL},
	{name: "HoldersTTLCounts", test: holdersTTL},
	{name: "EndedContextEndsCalls", test: endedContext},
}

func excludesOthers(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.request())
	req := b.request()
	if held := b.held(req); held.Key != e.key {
		e.Errorf("HeldError.Key = %q, want %q", held.Key, e.key)
	}
	a.release(lease)
	b.grant(req)
}

func excludesItself(e *env) {
	a := e.client()
	a.grant(a.request())
	a.held(a.request())
}

func leaseTells(e *env) {
	a := e.client()
	req := a.brief()
	lease := a.grant(req)
	want := backends.Lease{Key: req.Key, ID: req.ID, Token: lease.Token, Mode: req.Mode, TTL: req.TTL, Granted: lease.Granted}
	if lease != want {
		e.Errorf("lease %+v, want %+v", lease, want)
	}
	if e.h.Has&Dates != 0 && lease.Granted.IsZero() {
		e.Error("the lease has no date")
	}
	if renewal := a.renew(lease); renewal != (backends.Renewal{TTL: req.TTL}) {
		e.Errorf("renewal %+v", renewal)
	}
}

// A lost reply is repaired by asking again.
func askingAgain(e *env) {
	a := e.client()
	req := a.request()
	first := a.grant(req)
	if again := a.grant(req); again.Token != first.Token {
		e.Errorf("token %d when asked again, %d before", again.Token, first.Token)
	}
}

func askingAgainExtends(e *env) {
	a, b, _ := e.trio()
	req := a.brief()
	a.grant(req)
	time.Sleep(req.TTL / 2)
	start := time.Now()
	lease := a.grant(req)
	_, at := b.untilGranted(b.request())
	e.notBefore(start, a.Traits().Trusted(lease.TTL), at, "granted to another")
}

func anyClient(e *env) {
	a, b, c := e.trio()
	req := a.request()
	lease := a.grant(req)
	b.grant(req)
	b.renew(lease)
	c.release(lease)
	a.renewIsLost(lease)
}

// The lease counts from before the call, and other clients' asking doesn't shorten it.
func lasts(e *env) {
	a, b, _ := e.trio()
	start := time.Now()
	lease := a.grant(a.brief())
	_, at := b.untilGranted(b.request())
	e.notBefore(start, a.Traits().Trusted(lease.TTL), at, "granted to another")
}

func endsByItself(e *env) {
	a, b, _ := e.trio()
	lease := a.grant(a.brief())
	e.ended(lease.TTL)
	b.grant(b.request())
}

func contendersTTL(e *env) {
	a, b, _ := e.trio()
	a.grant(a.request())
	req := b.brief()
	req.Place = e.long
	b.held(req)
	e.ended(req.TTL)
	b.held(req)
}

func holdersTTL(e *env) {
	a, b, _ := e.trio()
	a.grant(a.brief())
	b.held(b.queue())
	b.untilGone(a.status().Line[0].ID)
}

// An ended context ends each call at once, with an error that claims no answer
// of the store.
func endedContext(e *env) {
	a := e.client()
	lease := a.grant(a.request())
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	_, acquire := a.Acquire(ctx, a.request())
	_, renew := a.Renew(ctx, lease)
	_, inspect := a.Inspect(ctx, e.key)
	release := a.Release(ctx, e.key, lease.ID, backends.Outcome{})
	for call, err := range map[string]error{"Acquire": acquire, "Renew": renew, "Inspect": inspect, "Release": release} {
		if err == nil {
			e.Errorf("%s succeeded after its context had ended", call)
		}
		for _, answer := range []error{backends.ErrHeld, backends.ErrLost, backends.ErrNotFound, backends.ErrRefused} {
			if errors.Is(err, answer) {
				e.Errorf("%s = %v, which is an answer of the store", call, err)
			}
		}
	}
}
