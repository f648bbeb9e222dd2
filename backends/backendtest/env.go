package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"flockd/backends"
)

// env is what one test works with: a fresh key, and clients of one store.
type env struct {
	*testing.T
	h       Harness
	key     string
	long    time.Duration // of what isn't meant to expire
	patient time.Duration // how long something that must happen may take
	clients int
}

func newEnv(t *testing.T, h Harness) *env {
	return &env{T: t, h: h, key: t.Name() + "-" + backends.NewID()[:8], long: 100 * h.TTL, patient: 20 * h.TTL}
}

// client is one client of the store. Its methods fail the test unless the
// answer is the one they are named for.
type client struct {
	backends.Backend
	e     *env
	owner backends.Owner
}

// client connects one more client.
func (e *env) client() client {
	e.clients++
	owner := backends.Owner{User: "alice", Host: fmt.Sprintf("host%d", e.clients), PID: 4711, Command: "report.sh", Note: "test"}
	return client{Backend: e.h.Open(e), e: e, owner: owner}
}

// trio connects three.
func (e *env) trio() (a, b, c client) { return e.client(), e.client(), e.client() }

// request asks for an exclusive hold that won't expire, without standing in line.
func (c client) request() backends.Request {
	return backends.Request{
		Key: c.e.key, ID: backends.NewID(), Owner: c.owner, Mode: backends.Exclusive, TTL: c.e.long,
	}
}

// brief asks for a hold that expires soon.
func (c client) brief() backends.Request {
	req := c.request()
	req.TTL = c.e.h.TTL
	return req
}

// queue is a request that stands in line.
func (c client) queue() backends.Request {
	req := c.request()
	req.Place = c.e.long
	return req
}

// mode is a request of that mode that stands in line.
func (c client) mode(mode backends.Mode, slots int) backends.Request {
	req := c.queue()
	req.Mode, req.Slots = mode, slots
	return req
}

// grant asks, and must be granted.
func (c client) grant(req backends.Request) backends.Lease {
	c.e.Helper()
	lease, err := c.Acquire(c.e.Context(), req)
	if err != nil {
		c.e.Fatalf("Acquire = %v (%+v), want a lease", err, err)
	}
	return lease
}

// held asks, and must hear that the key is taken.
func (c client) held(req backends.Request) *backends.HeldError {
	c.e.Helper()
	lease, err := c.Acquire(c.e.Context(), req)
	var held *backends.HeldError
	if !errors.As(err, &held) || !errors.Is(err, backends.ErrHeld) {
		c.e.Fatalf("Acquire = %+v, %v; want a HeldError", lease, err)
	}
	return held
}

// acquireIs asks, and must get the error target.
func (c client) acquireIs(target error, req backends.Request) {
	c.e.Helper()
	lease, err := c.Acquire(c.e.Context(), req)
	if !errors.Is(err, target) {
		c.e.Errorf("Acquire = %+v, %v; want %v", lease, err, target)
	}
}

// renew must succeed.
func (c client) renew(lease backends.Lease) backends.Renewal {
	c.e.Helper()
	renewal, err := c.Renew(c.e.Context(), lease)
	if err != nil {
		c.e.Fatalf("Renew = %v", err)
	}
	return renewal
}

// renewIsLost must fail with ErrLost.
func (c client) renewIsLost(lease backends.Lease) {
	c.e.Helper()
	_, err := c.Renew(c.e.Context(), lease)
	c.e.is(err, backends.ErrLost, "Renew")
}

// release must succeed.
func (c client) release(lease backends.Lease) {
	c.e.Helper()
	c.releaseWith(lease, backends.Outcome{})
}

func (c client) releaseWith(lease backends.Lease, outcome backends.Outcome) {
	c.e.Helper()
	if err := c.Release(c.e.Context(), lease.Key, lease.ID, outcome); err != nil {
		c.e.Fatalf("Release = %v", err)
	}
}

// releaseIsLost must fail with ErrLost.
func (c client) releaseIsLost(key, id string) {
	c.e.Helper()
	c.e.is(c.Release(c.e.Context(), key, id, backends.Outcome{}), backends.ErrLost, "Release")
}

// giveUp leaves the line. A place isn't a hold, so ErrLost is an answer too.
func (c client) giveUp(req backends.Request) {
	c.e.Helper()
	err := c.Release(c.e.Context(), req.Key, req.ID, backends.Outcome{})
	if err != nil && !errors.Is(err, backends.ErrLost) {
		c.e.Fatalf("Release of a place = %v", err)
	}
}

// ask must succeed.
func (c client) ask(id string, notice backends.Notice) {
	c.e.Helper()
	if err := c.Ask(c.e.Context(), c.e.key, id, notice); err != nil {
		c.e.Fatalf("Ask = %v", err)
	}
}

// status is what Inspect says of the test's key.
func (c client) status() backends.Status {
	c.e.Helper()
	status, err := c.Inspect(c.e.Context(), c.e.key)
	if err != nil {
		c.e.Fatalf("Inspect = %v", err)
	}
	return status
}

// inLine is the claim of id, or nil.
func (c client) inLine(id string) *backends.Claim {
	c.e.Helper()
	line := c.status().Line
	if i := slices.IndexFunc(line, func(c backends.Claim) bool { return c.ID == id }); i >= 0 {
		return &line[i]
	}
	return nil
}

// lineIs: the line must be these claims, in that order.
func (c client) lineIs(reqs ...backends.Request) {
	c.e.Helper()
	line := c.status().Line
	same := func(claim backends.Claim, req backends.Request) bool { return claim.ID == req.ID }
	if !slices.EqualFunc(line, reqs, same) {
		c.e.Errorf("line %+v, want %+v", line, reqs)
	}
}

// untilGranted asks again until it is granted, and returns when the answer came.
func (c client) untilGranted(req backends.Request) (lease backends.Lease, at time.Time) {
	c.e.Helper()
	c.e.until("the key is granted", func() bool {
		c.e.Helper()
		var err error
		lease, err = c.Acquire(c.e.Context(), req)
		at = time.Now()
		if err != nil && !errors.Is(err, backends.ErrHeld) {
			c.e.Fatalf("Acquire = %v, want a lease or ErrHeld", err)
		}
		return err == nil
	})
	return lease, at
}

// untilGone looks until id holds no more and waits no more.
func (c client) untilGone(id string) {
	c.e.Helper()
	c.e.until("the claim is gone", func() bool {
		claim := c.inLine(id)
		return claim == nil || claim.State == backends.Cooling
	})
}

// until tries again and again, for as long as is reasonable.
func (e *env) until(what string, happened func() bool) {
	e.Helper()
	for end := time.Now().Add(e.patient); !happened(); time.Sleep(e.h.TTL / 20) {
		if time.Now().After(end) {
			e.Fatalf("not within %v: %s", e.patient, what)
		}
	}
}

// ended lets a claim that would last d from now at most come to its end.
func (e *env) ended(d time.Duration) { time.Sleep(d + e.h.Granularity) }

// notBefore is for what must not have happened yet, d after start.
func (e *env) notBefore(start time.Time, d time.Duration, at time.Time, what string) {
	e.Helper()
	if early := d - at.Sub(start); early > 0 {
		e.Errorf("%s after %v, %v too early", what, at.Sub(start), early)
	}
}

func (e *env) is(err, target error, what string) {
	e.Helper()
	if !errors.Is(err, target) {
		e.Errorf("%s = %v, want %v", what, err, target)
	}
}

// waiting is a call of Wait or Watch that has begun.
type waiting struct {
	e    *env
	done chan error
}

// wait starts to wait after the answer held; the end of the test ends it.
func (c client) wait(held *backends.HeldError) waiting {
	waiter, _ := backends.As[backends.Waiter](c.Backend)
	return c.begin(func(ctx context.Context) error { return waiter.Wait(ctx, held) })
}

// begin starts a call; the end of the test ends it.
func (c client) begin(call func(context.Context) error) waiting {
	ctx, cancel := context.WithCancel(c.e.Context())
	w := waiting{c.e, make(chan error, 1)}
	over := make(chan struct{})
	go func() {
		defer close(over)
		w.done <- call(ctx)
	}()
	c.e.Cleanup(func() { cancel(); <-over })
	time.Sleep(c.e.h.TTL / 20) // let it begin
	return w
}

// returns: the call must end by itself.
func (w waiting) returns() {
	w.e.Helper()
	select {
	case err := <-w.done:
		if err != nil {
			w.e.Errorf("it returned %v", err)
		}
	case <-time.After(w.e.patient):
		w.e.Errorf("it has not returned within %v", w.e.patient)
	}
}

// sleepsOn: the call must not have ended, nor end within a moment.
func (w waiting) sleepsOn(why string) {
	w.e.Helper()
	select {
	case err := <-w.done:
		w.e.Errorf("it returned %v, but %s", err, why)
	case <-time.After(w.e.h.TTL / 4):
	}
}
