package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// link is a connection to one member. It is used until something goes wrong with
// it, and never repaired; that an answer is late is nothing wrong where others have come
// meanwhile, and there is no other member. Its requests end with their context, and aren't repeated.
type link struct {
	endpoint string
	conn     *grpc.ClientConn
	wire     atomic.Pointer[wire]
	owes     atomic.Bool // a request was given up, and its connection was not

	kv      clientv3.KV
	leases  pb.LeaseClient
	watches pb.WatchClient
	told    chan struct{} // closed when the member has told its version, or failed to
	raft    *raftTerm
}

// The server bears no more than one ping in 5 s. With one in 10 s while a watch is open,
// which is gRPC's least, routers on the way don't forget a connection that is
// otherwise silent until the next renewal.
var pings = keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}

const (
	window = 1 << 20 // bears the line of a key with thousands of waiters
	buffer = 4 << 10 // bears most requests and answers; larger ones take several goes
)

// quiet keeps gRPC's own log off stderr, unless its user has asked for it.
var quiet = sync.OnceFunc(func() {
	if os.Getenv("GRPC_GO_LOG_SEVERITY_LEVEL") == "" {
		grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	}
})

// dial connects to an endpoint. The member has answered by then.
func dial(ctx context.Context, endpoint string, config *tls.Config, raft *raftTerm, options ...grpc.DialOption) (*link, error) {
	quiet()
	l := &link{endpoint: endpoint, told: make(chan struct{}), raft: raft}
	var failed atomic.Pointer[error]
	dialer := func(ctx context.Context, _ string) (net.Conn, error) {
		w, err := dialWire(ctx, endpoint, config)
		if err != nil {
			failed.Store(&err)
			return nil, err
		}
		l.wire.Store(w)
		return w, nil
	}
	options = append([]grpc.DialOption{
		grpc.WithContextDialer(dialer),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // TLS is the wire's
		grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0), grpc.WithUserAgent("flockd"),
		grpc.WithKeepaliveParams(pings),
		// Windows that don't move cost no pings to find out how fast the way is.
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
		grpc.WithReadBufferSize(buffer), grpc.WithWriteBufferSize(buffer),
	}, options...)
	conn, err := grpc.NewClient("passthrough:///"+endpoint, options...)
	if err != nil {
		return nil, plainly(endpoint, err)
	}
	l.conn = conn
	if err := l.ready(ctx); err != nil {
		err = l.why(ctx, config, failed.Load(), err)
		l.close()
		return nil, plainly(endpoint, err)
	}
	l.kv = clientv3.NewKVFromKVClient(pb.NewKVClient(conn), nil)
	l.leases, l.watches = pb.NewLeaseClient(conn), pb.NewWatchClient(conn)
	return l, nil
}

// why is why the connection didn't become ready: what dialling says, or else what
// the member's first words do.
func (l *link) why(ctx context.Context, config *tls.Config, dialling *error, err error) error {
	w := l.wire.Load()
	switch {
	case dialling != nil && config != nil && errors.Is(*dialling, io.EOF): // etcd hangs up on what isn't HTTP
		plain, err := dial(ctx, l.endpoint, nil, l.raft)
		if err != nil {
			return *dialling
		}
		plain.close()
		return errPlain
	case dialling != nil:
		return *dialling
	case w != nil && ctx.Err() == nil:
		return w.why(ctx)
	}
	return err
}

// errBroken says that the connection failed; the wire knows why.
var errBroken = errors.New("the connection broke")

// ready connects, once.
func (l *link) ready(ctx context.Context) error {
	l.conn.Connect()
	for {
		switch state := l.conn.GetState(); state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure, connectivity.Shutdown:
			return errBroken
		default:
			if !l.conn.WaitForStateChange(ctx, state) {
				return ctx.Err()
			}
		}
	}
}

// usable reports whether the connection is up, as far as this end knows.
func (l *link) usable() bool { return l.conn.GetState() == connectivity.Ready }

// heardSince reports whether anything has come from the member since then.
func (l *link) heardSince(then time.Time) bool {
	w := l.wire.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last.After(then)
}

// close ends the connection and every request on it. Requests that haven't left
// this host never will.
func (l *link) close() {
	if w := l.wire.Load(); w != nil {
		w.abort()
	}
	l.conn.Close()
}

// txn is one transaction: then if all of conds hold, otherwise otherwise.
func (l *link) txn(ctx context.Context, conds []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	resp, err := l.kv.Txn(ctx).If(conds...).Then(then...).Else(otherwise...).Commit()
	if err == nil {
		l.raft.heard(resp.Header.RaftTerm)
	}
	return resp, clean(ctx, err)
}

// raftTerm is the latest Raft term that a client has heard of; it grows with each election.
type raftTerm struct{ atomic.Uint64 }

func (r *raftTerm) heard(term uint64) {
	for before := r.Load(); term > before && !r.CompareAndSwap(before, term); before = r.Load() {
	}
}

// clean makes gRPC's error one of etcd's or of ctx, where it is.
func clean(ctx context.Context, err error) error {
	var e rpctypes.EtcdError
	switch err = clientv3.ContextError(ctx, err); {
	case err == nil:
		return nil
	case endedByServer(ctx, err):
		return context.DeadlineExceeded
	case !errors.As(err, &e) && ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}

// endedByServer reports whether the server has ended the request for the client's deadline,
// which it knows, before the client has noticed it. Its handlers give that many names.
func endedByServer(ctx context.Context, err error) bool {
	const early = 100 * time.Millisecond // its clock may run faster: a fiftieth of the usual ?timeout=
	deadline, ok := ctx.Deadline()
	switch {
	case !ok || time.Until(deadline) > early:
		return false
	case status.Code(err) == codes.Canceled, status.Code(err) == codes.DeadlineExceeded:
		return true
	}
	return strings.Contains(err.Error(), context.DeadlineExceeded.Error())
}

// grant makes a lease, and returns its length as granted.
func (l *link) grant(ctx context.Context, t term) (time.Duration, error) {
	resp, err := l.leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: int64(t.id), TTL: t.seconds})
	if err != nil {
		return 0, clean(ctx, err)
	}
	return time.Duration(resp.TTL) * time.Second, nil
}

// keepAlive extends a lease to its full length from now, which it returns.
func (l *link) keepAlive(ctx context.Context, id clientv3.LeaseID) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	stream, err := l.leases.LeaseKeepAlive(ctx)
	if err != nil {
		return 0, clean(ctx, err)
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil && !errors.Is(err, io.EOF) {
		return 0, clean(ctx, err) // on EOF, Recv tells why
	}
	stream.CloseSend() // or the server would go on listening; what goes wrong, Recv tells
	resp, err := stream.Recv()
	switch {
	case err != nil:
		return 0, clean(ctx, err)
	case resp.TTL <= 0:
		return 0, rpctypes.ErrLeaseNotFound
	}
	return time.Duration(resp.TTL) * time.Second, nil
}

// last makes the lease last its length from now, made or extended.
func (l *link) last(ctx context.Context, t term) (time.Duration, error) {
	for {
		ttl, err := l.grant(ctx, t)
		if !errors.Is(err, rpctypes.ErrLeaseExist) {
			return ttl, err
		}
		ttl, err = l.keepAlive(ctx, t.id)
		if !errors.Is(err, rpctypes.ErrLeaseNotFound) { // it ended in between
			return ttl, err
		}
	}
}

// revoke ends a lease; one that has ended is no error.
func (l *link) revoke(ctx context.Context, id clientv3.LeaseID) error {
	_, err := l.leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: int64(id)})
	err = clean(ctx, err)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return err
}
