//go:build linux

package testscripts

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// errStale is a sink's answer to a token that isn't the largest.
var errStale = errors.New("stale")

// sink is one client's way to a number that the storage keeps, by a recipe's statements.
type sink interface {
	begin(token int64) (number int64, err error) // raises the fence, then reads
	write(token, number int64) error             // refused with errStale
}

// tally of a contest.
type tally struct{ accepted, refused, lost int64 }

// contest has 20 clients add one to a number, over and over. Of each two, one reads and
// stands still until the other, with a larger token, is done: a zombie. The pairs go as they
// like, so that tokens come in any order; with a key, all but zombies wait for it. In the
// end, the number must be read by begin with a token that is larger than all.
func contest(t *testing.T, rounds int, fenced bool, key sync.Locker, open func() sink) (n tally) {
	t.Helper()
	c := &contestants{T: t, fenced: fenced}
	var pairs sync.WaitGroup
	for range 10 {
		slow, fast := open(), open()
		pairs.Go(func() {
			for range rounds {
				key.Lock()
				c.add(slow, func() {
					key.Unlock() // its lease has passed
					key.Lock()
					defer key.Unlock()
					c.add(fast, func() {})
				})
			}
		})
	}
	pairs.Wait()
	number, err := open().begin(c.tokens.Add(1))
	must(t, err)
	n = tally{c.accepted.Load(), c.refused.Load(), c.accepted.Load() - number}
	t.Logf("%d writes: %d accepted, %d stale ones refused, %d lost", n.accepted+n.refused, n.accepted, n.refused, n.lost)
	if n.accepted+n.refused != int64(20*rounds) {
		t.Errorf("%d writes, want %d", n.accepted+n.refused, 20*rounds)
	}
	return n
}

// fencedContest is one in which no update may be lost, and every zombie must be refused.
func fencedContest(t *testing.T, rounds int, open func() sink) {
	t.Helper()
	n := contest(t, rounds, true, noKey{}, open)
	if n.lost != 0 || n.accepted == 0 || n.refused < int64(10*rounds) {
		t.Errorf("%d lost, %d accepted, %d refused of %d zombies", n.lost, n.accepted, n.refused, 10*rounds)
	}
}

// keptContest is one in which every holder's update must be accepted as well.
func keptContest(t *testing.T, rounds int, open func() sink) {
	t.Helper()
	n := contest(t, rounds, true, &sync.Mutex{}, open)
	if n.lost != 0 || n.accepted != int64(10*rounds) || n.refused != int64(10*rounds) {
		t.Errorf("%d lost, %d accepted of %d holders, %d refused of as many zombies", n.lost, n.accepted, 10*rounds, n.refused)
	}
}

// noKey is a lock that keeps nobody out.
type noKey struct{}

func (noKey) Lock()   {}
func (noKey) Unlock() {}

// looseContest is the control: it must lose some.
func looseContest(t *testing.T, rounds int, open func() sink) {
	t.Helper()
	if n := contest(t, rounds, false, noKey{}, open); n.lost <= 0 {
		t.Error("no update is lost without the fence, so that this contest shows nothing")
	}
}

// contestants know which tokens were handed out, and which have begun.
type contestants struct {
	*testing.T
	fenced                           bool
	tokens, begun, accepted, refused atomic.Int64
}

// add is one try of a client's.
func (c *contestants) add(s sink, meanwhile func()) {
	token := c.tokens.Add(1)
	number, err := s.begin(token)
	if err == nil {
		raise(&c.begun, token)
	}
	meanwhile()
	largest := c.begun.Load()
	if err == nil {
		err = s.write(token, number+1)
	}
	switch {
	case errors.Is(err, errStale):
		c.refused.Add(1)
		if newest := c.tokens.Load(); newest <= token {
			c.Errorf("token %d was refused, and there is no larger one", token)
		}
	case err != nil:
		c.Error(err)
	default:
		c.accepted.Add(1)
		if largest > token && c.fenced {
			c.Errorf("token %d was accepted after %d", token, largest)
		}
	}
}

func raise(to *atomic.Int64, n int64) {
	for old := to.Load(); old < n && !to.CompareAndSwap(old, n); old = to.Load() {
	}
}
