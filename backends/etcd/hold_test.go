package etcd

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flockd/backends"
)

// A hold whose lease ends while it is renewed, before whichever request of that, is gone,
// also where a lease of another length is asked for.
func TestLeaseEndsDuringARenewal(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	around := open(t, url)
	for name, c := range map[string]struct {
		ttl      time.Duration
		requests int32
	}{"same TTL": {2 * time.Minute, 2}, "another TTL": {time.Minute, 5}} {
		for before := int32(1); before <= c.requests; before++ {
			req := another(request(t))
			lease := acquire(t, around, req)
			lease.TTL = c.ttl
			s := open(t, url)
			var n atomic.Int32
			tapped(s, func() {
				if n.Add(1) == before {
					revoke(t, around, around.termOf(req.ID, forHold, req.TTL))
				}
			})
			s.cluster.raft.Store(around.cluster.raft.Load())
			if _, err := s.Renew(t.Context(), lease); err == nil {
				t.Errorf("%s: a lease that ended before request %d was renewed", name, before)
			}
			if n.Load() < before {
				t.Errorf("%s: %d requests, want %d", name, n.Load(), before)
			}
			if got := line(t, around, req.Key); len(got) > 0 {
				t.Errorf("%s: %v is in line after the end of its lease before request %d", name, got, before)
			}
		}
	}
}

// The server looks twice a second for leases that ended. Until it does, the claim is still there.
func TestRenewalAtTheEndOfALease(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s := open(t, url)
	var all sync.WaitGroup
	for range 8 { // some come before the server looks
		all.Go(func() {
			req := request(t)
			req.ID, req.TTL = backends.NewID(), time.Second
			req.Key += req.ID
			lease, err := s.Acquire(t.Context(), req)
			if err != nil {
				t.Errorf("Acquire = %v", err)
				return
			}
			<-time.After(lease.TTL)
			lease.TTL = time.Minute
			if renewal, err := s.Renew(t.Context(), lease); err == nil {
				t.Errorf("a lease that had ended was renewed, for %v", renewal.TTL)
			}
		})
	}
	all.Wait()
}

// A removal ends the leases as well: nobody needs to read the claim to learn of it.
func TestRemovalEndsTheLeases(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, req := open(t, url), request(t)
	req.MinHold = time.Minute
	lease := acquire(t, s, req)
	ask(t, open(t, url), lease, remove)
	isGone(t, s, s.termOf(req.ID, forHold, req.TTL))
	isGone(t, s, termFor(req.ID, forCool, req.MinHold+coolSlack))
}
