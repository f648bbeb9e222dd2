//go:build linux

package bench

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"flockd/backends"
)

// TestCostDoesntGrowWithTheLine counts what each operation asks of a store, with lines of
// different lengths, and all of whom wait listening.
func TestCostDoesntGrowWithTheLine(t *testing.T) {
	t.Parallel()
	for _, s := range counters(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			costs := map[string][]cost{}
			for _, n := range lines {
				t.Run(strconv.Itoa(n), func(t *testing.T) {
					for op, spent := range s.measure(t, n) {
						costs[op] = append(costs[op], spent)
					}
				})
			}
			if t.Failed() {
				return
			}
			for _, op := range operations {
				t.Logf("%-20s %.1f requests, bytes and bytes back with lines of %v", op, costs[op], lines)
				if !s.free[op] && slices.Contains(costs[op], cost{}) {
					t.Errorf("%s: nothing was counted", op)
				}
				steady(t, op+": requests", 1.2, 0, costs[op], func(c cost) float64 { return c.requests })
				steady(t, op+": bytes", s.steady, 0, costs[op], func(c cost) float64 { return c.bytes })
				steady(t, op+": bytes back", s.steady, lateEvents, costs[op], func(c cost) float64 { return c.answer })
			}
		})
	}
}

var (
	lines      = []int{2, 20, 100, 500}
	operations = []string{"acquire", "release", "renew", "skip", "ask again", "hand-over exclusive", "hand-over shared", "hand-over slots"}
)

// lateEvents are some five of etcd's that come if a watch isn't over yet, whatever the line:
// names and records of 500 would be a hundred times that.
const lateEvents = 1000

// steady wants an operation to cost no more with a long line than so many times what it
// does with a short one, and so much.
func steady(t *testing.T, what string, times, more float64, costs []cost, part func(cost) float64) {
	t.Helper()
	var values []float64
	for _, c := range costs {
		values = append(values, part(c))
	}
	if least, most := slices.Min(values), slices.Max(values); most > times*least+more {
		t.Errorf("%s: %.1f to %.1f", what, least, most)
	}
}

// cost is what was asked of a store.
type cost struct {
	requests float64
	bytes    float64 // to the store
	answer   float64 // bytes from it
}

func (c cost) plus(d cost) cost {
	return cost{c.requests + d.requests, c.bytes + d.bytes, c.answer + d.answer}
}

func (c cost) less(d cost) cost {
	return cost{c.requests - d.requests, c.bytes - d.bytes, c.answer - d.answer}
}

func (c cost) over(n int) cost {
	return cost{c.requests / float64(n), c.bytes / float64(n), c.answer / float64(n)}
}

// measure is what each operation costs with n waiters in line.
func (s *counted) measure(t *testing.T, n int) map[string]cost {
	const slots = 3
	costs := map[string]cost{}
	t.Run("exclusive", func(t *testing.T) {
		q := s.queue(t, n, backends.Exclusive, 0)
		costs = q.operations()
		costs["hand-over exclusive"] = q.handOver(1)
	})
	t.Run("slots", func(t *testing.T) {
		costs["hand-over slots"] = s.queue(t, n, backends.Slots, slots).handOver(1)
	})
	t.Run("shared", func(t *testing.T) { // one release lets all of them in: counted is what each of them costs
		costs["hand-over shared"] = s.queue(t, n, backends.Shared, 0).handOver(n).less(costs["release"]).over(n)
	})
	return costs
}

// operations measures those that leave the line as it is.
func (q *queue) operations() map[string]cost {
	const often = 5 // since the upkeep of a connection costs bytes as well
	costs := map[string]cost{}
	count := func(op string, f func()) {
		before := q.spent()
		f()
		costs[op] = costs[op].plus(q.spent().less(before))
	}
	for range often {
		var lease backends.Lease
		count("acquire", func() { lease, _ = q.ask(q.holder, q.request("free", 0)) })
		count("release", func() { q.release(lease) })
		count("renew", func() { q.renew(q.holds[0]) })
		count("skip", func() { q.ask(q.holder, q.request("line", 0)) })
		count("ask again", func() { q.ask(q.waiter, q.line[len(q.line)-1]) })
	}
	for op := range costs {
		costs[op] = costs[op].over(often)
	}
	return costs
}

// handOver measures what follows from one release, after which so many are granted.
func (q *queue) handOver(grants int) cost {
	before := q.spent()
	q.release(q.holds[0])
	for n := range grants {
		if q.looks {
			q.wait(q.line[n], q.again(q.line[n]))
		}
		select {
		case <-q.granted:
		case <-time.After(20 * time.Second):
			q.Fatalf("%d were granted, not %d", n, grants)
		}
	}
	q.settle()
	return q.spent().less(before)
}

// settle waits until nobody asks any more: a grant may have woken others.
func (q *queue) settle() {
	last := q.spent()
	check(q, await(func() (bool, error) {
		time.Sleep(200 * time.Millisecond)
		before := last
		last = q.spent()
		return last == before, nil
	}))
}
