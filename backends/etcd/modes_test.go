package etcd

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// slotsOf is a request for one of n slots.
func slotsOf(req backends.Request, n int) backends.Request {
	req = another(req)
	req.Mode, req.Slots = backends.Slots, n
	return req
}

// Newcomers that meet at free slots get them all, and nobody else does; who wants no
// place leaves none.
func TestCrowdForSlots(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	const crowd, n = 60, 20
	req := request(t)
	var mu sync.Mutex
	var slots []int
	var all sync.WaitGroup
	for range crowd {
		s, mine := open(t, url), slotsOf(req, n)
		mine.Place = 0
		all.Go(func() {
			lease, err := s.Acquire(within(t), mine)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				slots = append(slots, lease.Slot)
			} else if !errors.Is(err, backends.ErrHeld) {
				t.Errorf("Acquire = %v", err)
			}
		})
	}
	all.Wait()
	slices.Sort(slots)
	for i, slot := range slots {
		if slot != i {
			t.Fatalf("slots %v", slots)
		}
	}
	s := open(t, url)
	if got := line(t, s, req.Key); len(slots) != n || len(got) != n {
		t.Errorf("%d hold, and %d are in line; want %d", len(slots), len(got), n)
	}
	if left := inFolder(t, s, s.names(req.Key).order); len(left) > 0 {
		t.Errorf("places are left: %q", left)
	}
}

// inFolder are the names of the keys in a folder.
func inFolder(t testing.TB, s *Store, folder string) (keys []string) {
	t.Helper()
	for _, kv := range kvs(do(t, s, all(folder).get()).Responses[0]) {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

// Whatever came of a claim, nothing is left of it but what says so.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			s, other, req := open(t, url), open(t, url), request(t)
			lease, removed := acquire(t, s, moded(req, mode)), moded(req, mode)
			next, gone, waits := another(req), another(req), moded(req, mode)
			for _, r := range []backends.Request{next, gone, waits} {
				held(t, s, r)
			}
			release(t, other, lease) // that knows only the ID
			acquire(t, s, next)
			release(t, other, backends.Lease{Key: req.Key, ID: gone.ID})
			ask(t, other, backends.Lease{Key: req.Key, ID: waits.ID}, remove)
			ask(t, other, backends.Lease{Key: req.Key, ID: next.ID}, remove)
			ask(t, other, acquire(t, s, removed), remove)
			n := s.names(req.Key)
			for _, folder := range []string{n.line, n.held, n.order, n.cool} {
				if left := inFolder(t, s, folder); len(left) > 0 {
					t.Errorf("%q are left", left)
				}
			}
		})
	}
}

// A hold that is freed by hand, as the documentation says, with its hold's twin left, is in
// nobody's way for longer than its slot.
func TestFreedByHand(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			s, req := open(t, url), request(t)
			old := moded(req, mode)
			old.MinHold = time.Second
			lease := acquire(t, s, old)
			do(t, s, all(s.names(req.Key).line).delete())
			if _, err := s.Renew(t.Context(), lease); !errors.Is(err, backends.ErrLost) {
				t.Errorf("Renew = %v", err)
			}
			next := moded(req, mode)
			for ; ; time.Sleep(50 * time.Millisecond) {
				got, err := s.Acquire(within(t), next)
				if err == nil {
					if got.Token <= lease.Token || mode == backends.Slots && got.Slot != 1 {
						t.Errorf("%+v after %+v", got, lease)
					}
					return
				}
				if !errors.Is(err, backends.ErrHeld) {
					t.Fatalf("Acquire = %v", err)
				}
			}
		})
	}
}

func (s span) delete() clientv3.Op { return clientv3.OpDelete(s.first, clientv3.WithRange(s.end)) }

// The one in front isn't always asking; tokens are in the order of grants all the same, in
// whichever modes.
func TestTokensGrowWithGrants(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, req := open(t, url), request(t)
	first := acquire(t, s, req)
	a, b, x := moded(req, backends.Shared), moded(req, backends.Shared), another(req)
	for _, r := range []backends.Request{a, b, x} {
		held(t, s, r)
	}
	release(t, s, first)
	last := first.Token
	for _, r := range []backends.Request{b, a} {
		lease := acquire(t, s, r)
		if again := acquire(t, open(t, url), r); lease.Token <= last || again.Token != lease.Token {
			t.Errorf("tokens %d and %d after %d", lease.Token, again.Token, last)
		}
		last = lease.Token
	}
	for _, r := range []backends.Request{a, b} {
		release(t, s, backends.Lease{Key: r.Key, ID: r.ID})
	}
	if lease := acquire(t, s, x); lease.Token <= last {
		t.Errorf("token %d after %d", lease.Token, last)
	}
}

// Who asks again makes two requests, and goes on listening.
func TestListensWhileAsking(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, req := open(t, url), request(t)
	lease, waiter := acquire(t, open(t, url), req), another(req)
	answer := held(t, s, waiter)
	m := metered(s)
	s.cluster.drop(s.cluster.link)
	for i := range 3 {
		cost := m.of(func() {
			brief, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := s.Wait(brief, answer); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Wait = %v", err)
			}
			answer = held(t, s, waiter)
		})
		if i == 0 {
			m.untilListening(t)
		}
		if i > 0 && cost.requests != 2 { // the first connects, and begins to listen
			t.Errorf("%d requests to wait and ask again", cost.requests)
		}
	}
	release(t, open(t, url), lease)
	wait(t, s, answer)
	acquire(t, s, waiter)
	if s.memory.recall(waiter.ID).ear != nil {
		t.Error("it listens on")
	}
}

// The reply to any request may be lost: asked again, the answer is the same.
func TestLostRepliesInEveryMode(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			x, s, around := proxied(t)
			for _, lost := range []string{"look", "lease", "grant", "proof", "keep", "record", "end"} {
				req := moded(request(t), mode)
				req.Key += lost
				line(t, s, req.Key) // it hears of the Raft term
				var happened <-chan struct{}
				lose := func(request string, match []byte) {
					if lost == request {
						happened = x.LoseReply(match)
					}
				}
				once := mode == backends.Exclusive
				if once {
					req.Once = &backends.Once{ID: "v42", Keep: time.Hour}
				} else if lost == "proof" || lost == "keep" || lost == "record" {
					continue
				}
				lose("look", []byte(req.ID))
				lose("lease", leaseOf(s.termOf(req.ID, forHold, req.TTL)))
				lose("grant", []byte(`"state":"holding"`))
				lease := acquire(t, s, req)
				if again := acquire(t, around, req); again.Token != lease.Token || again.Slot != lease.Slot || again.Run != lease.Run || again.Keep != lease.Keep {
					t.Errorf("%s: %+v, then %+v", lost, lease, again)
				}
				if once {
					lose("proof", []byte(req.ID))
					lose("keep", leaseOf(termFor(req.ID, forKeep, req.Once.Keep+coolSlack)))
					lose("record", []byte(`"forgets"`))
					completes(t, s, lease)
				}
				lose("end", []byte(req.ID))
				release(t, s, lease)
				isLost(t, happened)
				if got := line(t, around, req.Key); len(got) > 0 {
					t.Errorf("%s: %v is in line", lost, got)
				}
				if _, err := around.Completed(t.Context(), req.Key, "v42"); once && err != nil {
					t.Errorf("%s: Completed = %v", lost, err)
				}
			}
		})
	}
}

// What came and went between a look and the grant, and cools, is in the way.
func TestCoolsSinceTheLook(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	for _, mode := range modes {
		for _, other := range modes {
			if mode == other && mode == backends.Shared {
				continue
			}
			s, around, req := open(t, url), open(t, url), request(t)
			req.Key += string(mode) + string(other)
			late, cools := moded(req, mode), moded(req, other)
			cools.MinHold = time.Minute
			_, err := actsOn(t, s, late, func() { release(t, around, acquire(t, around, cools)) })
			if !errors.Is(err, errMoved) {
				t.Errorf("%s after %s: what came late = %v", mode, other, err)
			}
		}
	}
}
