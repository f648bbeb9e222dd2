package servers

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Direction is one of the two of a connection.
type Direction int

const (
	Requests Direction = iota // from the client to the server
	Replies
)

// TCPProxy stands between clients and a server, and passes bytes until told otherwise.
// What it does to one direction holds for all connections, open ones and new ones.
//
// It accepts a connection before it has one to the server: where that refuses, the
// client sees a reset. A client that dials while both directions are stalled is
// connected, and then hears nothing; a SYN that nobody answers is not made here.
type TCPProxy struct {
	Addr string // where clients reach it: "127.0.0.1:port"

	t      testing.TB
	target string
	work   sync.WaitGroup

	mu       sync.Mutex
	listener *net.TCPListener // nil while it refuses
	pairs    map[*pair]bool
	accepted int
	passed   [2]int64
	trips    int
	ended    bool
	rules    [2]rule
	changed  chan struct{} // closed, and made anew, when a rule changes
	losses   []*loss
}

// rule is what happens to the bytes of one direction.
type rule struct {
	delay   time.Duration
	stalled bool
}

// Proxy starts a proxy to a server's address.
func Proxy(t testing.TB, target string) *TCPProxy {
	t.Helper()
	x := newProxy(t, target)
	x.Addr = address(t)
	x.Refuse(false)
	if t.Failed() {
		t.FailNow()
	}
	return x
}

// newProxy is one that doesn't listen, and is given its connections.
func newProxy(t testing.TB, target string) *TCPProxy {
	x := &TCPProxy{t: t, target: target, pairs: map[*pair]bool{}, changed: make(chan struct{})}
	t.Cleanup(func() {
		x.Refuse(true)
		x.end()
	})
	return x
}

// Pass delivers at once, also what was held back.
func (x *TCPProxy) Pass(dir Direction) { x.set(dir, rule{}) }

// Delay delivers everything d after it came, in order.
func (x *TCPProxy) Delay(dir Direction, d time.Duration) { x.set(dir, rule{delay: d}) }

// Stall takes bytes, and the ends of connections, and holds them back. As with a cable
// that was pulled, they arrive when the direction passes again, even if the client has
// left meanwhile.
func (x *TCPProxy) Stall(dir Direction) { x.set(dir, rule{stalled: true}) }

// Silence stalls the connections that are open now, in both directions and for good;
// new ones are not touched.
func (x *TCPProxy) Silence() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for p := range x.pairs {
		p.silenced = true
	}
	x.tell()
}

// Cut resets every open connection, on both sides. What was held back is gone.
func (x *TCPProxy) Cut() {
	for _, p := range x.open() {
		p.cut()
	}
}

// Refuse refuses new connections, or takes them again. Open ones are not touched.
func (x *TCPProxy) Refuse(refuse bool) {
	x.t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	if refuse == (x.listener == nil) {
		return
	}
	if refuse {
		unlisten(x.listener)
		x.listener = nil
		return
	}
	listener, err := listen(x.Addr)
	if err != nil {
		x.t.Errorf("proxy to %s: %v", x.target, err)
		return
	}
	x.listener = listener
	go x.serve(listener)
}

// Accepted is how many connections clients have made so far.
func (x *TCPProxy) Accepted() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.accepted
}

// Passed is how many bytes of a direction have come so far.
func (x *TCPProxy) Passed(dir Direction) int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.passed[dir]
}

// Trips is how many times so far a client has sent something that wasn't the rest of what
// it had just sent on that connection: of clients that send a request and wait for its
// reply, their requests, and those of the greeting.
func (x *TCPProxy) Trips() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.trips
}

func (x *TCPProxy) count(p *pair, dir Direction, n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.passed[dir] += int64(n)
	if dir == Requests && !p.asks {
		x.trips++
	}
	p.asks = dir == Requests
}

func (x *TCPProxy) serve(listener *net.TCPListener) {
	for {
		conn, err := listener.AcceptTCP()
		if err != nil { // it was closed
			return
		}
		x.adopt(conn)
	}
}

// adopt takes a client's connection.
func (x *TCPProxy) adopt(client *net.TCPConn) {
	p := newPair(x, client)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		reset(client)
		return
	}
	x.accepted++
	x.pairs[p] = true
	x.work.Go(func() {
		p.run()
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.pairs, p)
	})
}

// end returns when nothing is left.
func (x *TCPProxy) end() {
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
	x.Cut()
	x.work.Wait()
}

func (x *TCPProxy) open() []*pair {
	x.mu.Lock()
	defer x.mu.Unlock()
	pairs := make([]*pair, 0, len(x.pairs))
	for p := range x.pairs {
		pairs = append(pairs, p)
	}
	return pairs
}

func (x *TCPProxy) set(dir Direction, r rule) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rules[dir] = r
	x.tell()
}

// tell wakes whoever goes by a rule. The caller holds x.mu.
func (x *TCPProxy) tell() {
	close(x.changed)
	x.changed = make(chan struct{})
}

// rule is the present one for a pair, and a channel that is closed when it may not be
// any more.
func (x *TCPProxy) rule(p *pair, dir Direction) (rule, <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.rules[dir]
	r.stalled = r.stalled || p.silenced
	return r, x.changed
}
