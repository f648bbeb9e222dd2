package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// cluster is the way to the members: one connection, to the first that answers,
// until it fails.
type cluster struct {
	endpoints []string
	tls       *tls.Config
	user      string
	password  string
	options   []grpc.DialOption // for tests
	raft      raftTerm

	mu     sync.Mutex
	early  *dialling // nil: taken, or there was none
	link   *link     // nil: none is open
	next   int       // the endpoint to connect to first
	token  string    // that proves the user; empty: none yet
	open   bool      // the cluster asks nobody for a user
	closed bool
	caveat string
}

func newCluster(endpoints []string, config *tls.Config, user, password string) *cluster {
	c := &cluster{endpoints: endpoints, tls: config, user: user, password: password}
	c.next = rand.N(len(endpoints)) // so that clients spread over the members
	c.options = []grpc.DialOption{grpc.WithPerRPCCredentials(bearer{c})}
	return c
}

// stagger is how much longer a member may take to answer than the next one,
// before that is tried at the same time. It is what RFC 8305 recommends between
// two addresses of a host: a dead member is hardly felt.
const stagger = 250 * time.Millisecond

// dialling is a connection that is made before somebody asks for it.
type dialling struct {
	done chan struct{}
	link *link
	err  error
}

// hasten begins to connect, for the first who asks. It must be called before anybody does.
func (c *cluster) hasten(limit time.Duration) {
	d := &dialling{done: make(chan struct{})}
	c.early = d
	first := c.next
	go func() {
		defer close(d.done)
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		d.link, d.err = c.race(ctx, first)
	}()
}

var errClosed = errors.New("the store is closed")

// connected is the open connection, or a new one.
func (c *cluster) connected(ctx context.Context) (*link, error) {
	c.mu.Lock()
	l, early, first, closed := c.link, c.early, c.next, c.closed
	c.early = nil
	c.mu.Unlock()
	switch {
	case closed: // a watch begins again where its connection broke
		return nil, errClosed
	case early != nil:
		if l, err := c.await(ctx, early); l != nil || err != nil {
			return l, err
		}
	case l != nil && l.usable():
		return l, nil
	case l != nil:
		c.drop(l)
		return c.connected(ctx)
	}
	l, err := c.race(ctx, first)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.next = (first + 1) % len(c.endpoints) // or every short try would begin with one that hangs
		return nil, err
	}
	return c.keep(l), nil
}

// await is the connection that was begun early, nil if it has broken since. One that isn't
// there when ctx ends is given up.
func (c *cluster) await(ctx context.Context, early *dialling) (*link, error) {
	select {
	case <-early.done:
	case <-ctx.Done():
		go early.close()
		return nil, unreachable([]error{ctx.Err()})
	}
	switch {
	case early.err != nil:
		return nil, early.err
	case !early.link.usable():
		go early.close()
		return nil, nil
	}
	return c.keep(early.link), nil
}

// close waits for the connection, to close it.
func (d *dialling) close() {
	if <-d.done; d.link != nil {
		d.link.close()
	}
}

// keep makes l the open connection, unless another caller was faster.
func (c *cluster) keep(l *link) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		go l.close()
		return l
	case c.link != nil:
		go l.close()
		return c.link
	}
	c.link = l
	c.next = slices.Index(c.endpoints, l.endpoint)
	go c.learnVersion(l)
	return l
}

// race connects to one endpoint after the other, and takes the first that answers.
func (c *cluster) race(ctx context.Context, first int) (*link, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		link *link
		err  error
	}
	results := make(chan result)
	start := func(endpoint string) {
		l, err := dial(ctx, endpoint, c.tls, &c.raft, c.options...)
		select {
		case results <- result{l, err}:
		case <-ctx.Done():
			if l != nil {
				l.close()
			}
		}
	}
	var errs []error
	for started := 0; ; {
		var next <-chan time.Time
		if started < len(c.endpoints) {
			go start(c.endpoints[(first+started)%len(c.endpoints)])
			started++
			next = time.After(stagger)
		}
		select {
		case r := <-results:
			if r.err == nil {
				return r.link, nil
			}
			if errs = append(errs, r.err); len(errs) == len(c.endpoints) {
				return nil, unreachable(errs)
			}
		case <-next:
		case <-ctx.Done():
			return nil, unreachable(append(errs, ctx.Err()))
		}
	}
}

// drop makes sure that l isn't used again. The next connection is to another
// member, if there is one.
func (c *cluster) drop(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == l {
		c.link = nil
		c.next = (slices.Index(c.endpoints, l.endpoint) + 1) % len(c.endpoints)
	}
	go l.close()
}

// abandon drops the connection there is, after a request to which the next must not be bound.
func (c *cluster) abandon() {
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	if l != nil {
		c.drop(l)
	}
}

// close ends the connection as one does where nothing is wrong.
func (c *cluster) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	switch l := c.link; {
	case l == nil:
	case l.owes.Load():
		l.close()
	default:
		l.conn.Close()
	}
	c.link = nil
	if early := c.early; early != nil {
		c.early = nil
		go early.close()
	}
}

// A request that isn't answered in half the time that is left is asked again on
// another connection, but none is given less than this: it is what a busy server or a
// far one may well take.
const leastTry = time.Second

// call runs op, which must bear being run again from its start, until it succeeds,
// fails for good, or has had its chance with every member. Two tries more are for a
// connection that had broken before, and for a token that had expired.
func (c *cluster) call(ctx context.Context, op func(context.Context, *link) error) error {
	var before error
	for tries := 0; ; tries++ {
		err, again := c.try(ctx, op)
		if before != nil && again && !isMembers(err) { // a connection that came to nothing tells less
			err = before
		}
		if err == nil || !again || tries > len(c.endpoints) || ctx.Err() != nil {
			return err
		}
		before = err
	}
}

// try runs op once; again says that another connection may do better.
func (c *cluster) try(parent context.Context, op func(context.Context, *link) error) (err error, again bool) {
	ctx, cancel := context.WithTimeout(parent, share(parent))
	defer cancel()
	began := time.Now()
	l, err := c.connected(ctx)
	if err != nil {
		return err, errors.Is(err, context.DeadlineExceeded)
	}
	if err = c.authenticate(ctx, l); err == nil {
		err = op(ctx, l)
	}
	switch {
	case err == nil:
		return nil, false
	case tokenExpired(err) && c.user != "":
		c.forget()
		return named(l, err), true
	case errors.Is(err, context.Canceled): // and it may have hung
		c.drop(l)
		return err, false
	case errors.Is(err, context.DeadlineExceeded) && len(c.endpoints) == 1 && l.heardSince(began):
		l.owes.Store(true) // it is merely slow, and would be slower with one connection more
		return named(l, err), true
	case isUnavailable(err), errors.Is(err, context.DeadlineExceeded):
		c.drop(l)
		return named(l, err), true
	}
	return named(l, err), false
}

// share is how long one try may last.
func share(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	return max(left/2, min(left, leastTry))
}

// isUnavailable reports whether another member may do better: the connection
// failed, or the member has no leader, no quorum, or is about to stop.
func isUnavailable(err error) bool {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code() == codes.Unavailable
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.Internal:
		return true
	}
	return false
}
