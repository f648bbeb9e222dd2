package etcd

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"flockd/backends"
)

// meter counts what goes over a store's connections.
type meter struct {
	requests, bytes atomic.Int64
	listens         chan struct{} // told, once, when the member has said that it watches
}

// watchTag marks the context of a watch.
type watchTag struct{}

func (m *meter) TagRPC(ctx context.Context, rpc *stats.RPCTagInfo) context.Context {
	if rpc.FullMethodName == pb.Watch_Watch_FullMethodName {
		ctx = context.WithValue(ctx, watchTag{}, true)
	}
	return ctx
}

func (m *meter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (m *meter) HandleConn(context.Context, stats.ConnStats)                       {}

func (m *meter) HandleRPC(ctx context.Context, s stats.RPCStats) {
	switch s := s.(type) {
	case *stats.Begin:
		m.requests.Add(1)
	case *stats.OutPayload:
		m.bytes.Add(int64(s.WireLength))
	case *stats.InPayload:
		m.bytes.Add(int64(s.WireLength))
		if ctx.Value(watchTag{}) != nil {
			select {
			case m.listens <- struct{}{}:
			default:
			}
		}
	}
}

// untilListening returns when a watch is open.
func (m *meter) untilListening(t testing.TB) {
	t.Helper()
	select {
	case <-m.listens:
	case <-within(t).Done():
		t.Fatal("nobody listens")
	}
}

// metered counts on the connections that the store makes from now on.
func metered(s *Store) *meter {
	m := &meter{listens: make(chan struct{}, 1)}
	s.cluster.options = append(s.cluster.options, grpc.WithStatsHandler(m))
	return m
}

// cost is what an operation took.
type cost struct{ requests, bytes int64 }

// of measures do.
func (m *meter) of(do func()) cost {
	m.requests.Store(0)
	m.bytes.Store(0)
	do()
	return cost{m.requests.Load(), m.bytes.Load()}
}

// moded is a request of that mode that stands in line.
func moded(req backends.Request, mode backends.Mode) backends.Request {
	req = another(req)
	if req.Mode, req.Slots = mode, 0; mode == backends.Slots {
		req.Slots = 2
	}
	return req
}

// What an operation costs is the same in a line of any length, requests and bytes, in every mode.
func TestCosts(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			short := costs(t, url, mode, 2)
			for _, n := range []int{20, 100, 500} {
				for op, long := range costs(t, url, mode, n) {
					if long.requests != short[op].requests || float64(long.bytes) > 1.2*float64(short[op].bytes) {
						t.Errorf("%s: %+v with %d waiters, %+v with 2", op, long, n, short[op])
					}
				}
			}
			t.Logf("%+v", short)
		})
	}
}

// costs measures all operations with n who wait in that mode, behind an exclusive holder or one
// for each slot.
func costs(t *testing.T, url string, mode backends.Mode, n int) map[string]cost {
	s, other := open(t, url), open(t, url)
	m, c := metered(s), map[string]cost{}
	req := request(t)
	req.Key += fmt.Sprint(n)
	stands := func() backends.Request {
		r := moded(req, mode)
		r.Place = r.TTL // a busy machine may take long to make a line
		return r
	}
	free := moded(req, mode)
	free.Key += "free"
	free.Place = 0
	release(t, s, acquire(t, s, another(free)))
	var lease backends.Lease
	c["acquire"] = m.of(func() { lease = acquire(t, s, free) })
	c["renew"] = m.of(func() { renew(t, s, lease) })
	c["release"] = m.of(func() { release(t, s, lease) })
	holder := another(req)
	if mode == backends.Slots {
		holder = moded(req, mode)
		acquire(t, other, moded(req, mode))
	}
	lease = acquire(t, s, holder)
	first, last := stands(), stands()
	answer := held(t, s, first)
	for range n - 2 {
		held(t, other, stands())
	}
	c["take a place"] = m.of(func() { answer = held(t, s, last) })
	c["ask again"] = m.of(func() { held(t, s, last) })
	skip := moded(req, mode)
	skip.Place = 0
	c["skip"] = m.of(func() { held(t, s, skip) })
	answer = held(t, s, first)
	c["hand-over"] = m.of(func() {
		release(t, s, lease)
		wait(t, s, answer)
		acquire(t, s, first)
	})
	return c
}
