package etcd

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"flockd/backends"
)

// tapped calls tap before every request on the connections that the store makes from now on,
// but for the one about the version, which is beside the others.
func tapped(s *Store, tap func()) {
	s.cluster.options = append(s.cluster.options,
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if method != pb.Maintenance_Status_FullMethodName {
				tap()
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			tap()
			return stream(ctx, desc, cc, method, opts...)
		}))
}

// counted counts the requests of tapped.
func counted(s *Store) *atomic.Int32 {
	var n atomic.Int32
	tapped(s, func() { n.Add(1) })
	return &n
}

// What an operation costs is the same in a line of any length.
func TestRequests(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	for _, waiters := range []int{2, 60} {
		t.Run(fmt.Sprint(waiters, " waiters"), func(t *testing.T) {
			s, other := open(t, url), open(t, url)
			n := counted(s)
			costs := func(what string, want int32, do func()) {
				t.Helper()
				n.Store(0)
				if do(); n.Load() != want {
					t.Errorf("%s: %d requests, want %d", what, n.Load(), want)
				}
			}
			req := request(t)
			release(t, s, acquire(t, s, another(req))) // the first of the week makes the lease of its runs
			var lease backends.Lease
			costs("acquire", 3, func() { lease = acquire(t, s, req) })
			first := another(req)
			var answer *backends.HeldError
			costs("take a place", 4, func() { answer = held(t, s, first) })
			for range waiters - 1 {
				held(t, other, another(req))
			}
			skip := another(req)
			skip.Place = 0
			costs("skip", 1, func() { held(t, s, skip) })
			costs("keep the place", 2, func() { held(t, s, first) })
			costs("renew", 2, func() { renew(t, s, lease) })
			costs("release", 1, func() { release(t, s, lease) })
			costs("wait", 1, func() { wait(t, s, answer) })
			costs("take the turn", 2, func() { lease = acquire(t, s, first) })
			costs("inspect", 1, func() { line(t, s, req.Key) })
			release(t, other, lease)
			ends := another(req)
			costs("take a place at the end, with nobody holding", 5, func() { held(t, s, ends) })
			costs("give up", 1, func() { release(t, s, backends.Lease{Key: ends.Key, ID: ends.ID}) })
		})
	}
}
