//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/all"
)

// queue is a key that is held, and a line of whom all listen for a hint. Where they would
// look for one, as time passes and not as the line moves, they do nothing until it is their
// turn: TestIdleWaitersAreQuiet counts their looks.
type queue struct {
	*testing.T
	*counted
	ctx            context.Context // ends the waits
	holder, waiter backends.Backend
	key            string
	mode           backends.Mode // of those in line
	slots          int
	holds          []backends.Lease
	line           []backends.Request // of the waiters
	granted        chan struct{}
}

// queue makes a line of n. The holders of slots have the mode of the line; else there is
// one holder, who is exclusive. All connections are there by then, and the server knows
// every script.
func (s *counted) queue(t *testing.T, n int, mode backends.Mode, slots int) *queue {
	t.Cleanup(func() { s.listen(t, 0) })
	ctx, cancel := context.WithCancel(t.Context())
	q := &queue{
		T: t, counted: s, ctx: ctx, holder: s.open(t), waiter: s.open(t), granted: make(chan struct{}, n),
		key: fmt.Sprintf("%s-%d", mode, n), mode: mode, slots: slots,
	}
	q.hold()
	for range n {
		req := q.request("line", time.Minute)
		q.ask(q.waiter, req)
		q.line = append(q.line, req)
	}
	var waiters sync.WaitGroup
	t.Cleanup(func() { cancel(); waiters.Wait() })
	if !q.looks {
		q.waitAll(&waiters)
	}
	if t.Failed() {
		t.FailNow()
	}
	s.listen(t, n)
	q.settle()
	return q
}

// waitAll has all of the line wait.
func (q *queue) waitAll(waiters *sync.WaitGroup) {
	var connected sync.WaitGroup
	for _, req := range q.line {
		connected.Add(1)
		waiters.Go(func() {
			held := q.again(req) // all at once, so that there are connections for it
			connected.Done()
			q.wait(req, held)
		})
	}
	connected.Wait()
}

// hold takes the key, with the mode of the line if that is slots. Both keys have been used
// by then: whoever adds one to a database looks for others to drop.
func (q *queue) hold() {
	for _, key := range []string{"free", "line"} {
		req := q.request(key, 0)
		req.Mode, req.Slots = backends.Exclusive, 0
		lease, _ := q.ask(q.holder, req)
		q.renew(lease)
		q.release(lease)
	}
	for range max(1, q.slots) {
		req := q.request("line", 0)
		if q.mode != backends.Slots {
			req.Mode = backends.Exclusive
		}
		lease, _ := q.ask(q.holder, req)
		q.holds = append(q.holds, lease)
	}
}

// request is a new one for a key of the queue's.
func (q *queue) request(key string, place time.Duration) backends.Request {
	return backends.Request{
		Key: q.key + "-" + key, ID: backends.NewID(), Mode: q.mode, Slots: q.slots, TTL: 5 * time.Minute, Place: place,
	}
}

// wait asks again as often as a hint comes, until it is granted the key.
func (q *queue) wait(req backends.Request, held *backends.HeldError) {
	waiter, _ := backends.As[backends.Waiter](q.waiter)
	for held != nil && waiter.Wait(q.ctx, held) == nil {
		held = q.again(req)
	}
	if held == nil {
		q.granted <- struct{}{}
	}
}

// again asks until there is an answer, which a database that many want takes some time for.
func (q *queue) again(req backends.Request) (held *backends.HeldError) {
	for q.ctx.Err() == nil {
		if _, err := q.waiter.Acquire(q.ctx, req); err == nil || errors.As(err, &held) {
			break
		}
	}
	return held
}

// ask asks once; nil: it was granted.
func (q *queue) ask(b backends.Backend, req backends.Request) (backends.Lease, *backends.HeldError) {
	q.Helper()
	lease, err := b.Acquire(q.ctx, req)
	var held *backends.HeldError
	if err != nil && !errors.As(err, &held) {
		q.Error(err)
	}
	return lease, held
}

func (q *queue) renew(lease backends.Lease) {
	q.Helper()
	if _, err := q.holder.Renew(q.ctx, lease); err != nil {
		q.Error(err)
	}
}

func (q *queue) release(lease backends.Lease) {
	q.Helper()
	if err := q.holder.Release(q.ctx, lease.Key, lease.ID, backends.Outcome{Class: "finished", Success: true}); err != nil {
		q.Error(err)
	}
}

// spent is what was asked of the store so far.
func (q *queue) spent() cost {
	q.Helper()
	c, err := q.counted.spent()
	check(q, err)
	return c
}

// listen waits until n listen, each for one thing or more.
func (s *counted) listen(t *testing.T, n int) {
	t.Helper()
	before, now := -1, -1
	if err := await(func() (ok bool, err error) {
		before = now
		now, err = s.listeners(n)
		return now == before && now >= n && (n > 0 || now == 0), err
	}); err != nil {
		t.Fatalf("%d listen, not %d: %v", now, n, err)
	}
}

// open opens the store; the end of the test closes it, and so ends the waits.
func (s *counted) open(t testing.TB) backends.Backend {
	u, err := backends.ParseURL(s.url)
	check(t, err)
	b, err := all.Open(context.Background(), u)
	check(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}
