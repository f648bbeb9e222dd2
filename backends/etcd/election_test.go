package etcd

import (
	"errors"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// leasesOf are the leases of the claims in the key's line, by ID.
func leasesOf(t testing.TB, s *Store, key string) map[string]int64 {
	t.Helper()
	leases, folder := map[string]int64{}, s.names(key).line
	for _, kv := range kvs(do(t, s, clientv3.OpGet(folder, clientv3.WithPrefix())).Responses[0]) {
		leases[strings.TrimPrefix(string(kv.Key), folder)] = kv.Lease
	}
	return leases
}

// After an election whatever the old leader may think of a lease, and say to the others
// when it goes on, concerns nobody any more who has been heard of since.
func TestLeasesAfterAnElection(t *testing.T) {
	t.Parallel()
	c := servers.EtcdCluster(t, 3)
	leader := c.Leader()
	s := attached(t, c, (leader+1)%3)
	req := request(t)
	lease, waiter := acquire(t, s, req), another(req)
	held(t, s, waiter)
	before := leasesOf(t, s, req.Key)
	c.Members[leader].Kill()
	c.Leader(leader)
	renewsWithin(t, s, lease)
	held(t, s, waiter)
	for id, old := range before {
		if leasesOf(t, s, req.Key)[id] == old {
			t.Errorf("%s is under its old lease", id)
		}
		revoke(t, s, term{id: clientv3.LeaseID(old)})
	}
	renew(t, s, lease)
	held(t, s, waiter)
	if got := line(t, s, req.Key); len(got) != 2 {
		t.Errorf("%v is in line, not two", got)
	}
	release(t, s, lease)
	if got := acquire(t, s, waiter); got.Token <= lease.Token {
		t.Errorf("token %d after %d", got.Token, lease.Token)
	}
}

// The first answer that tells of an election may be the grant's own. The hold is under a lease
// of the new Raft term by the time that anybody is told.
func TestElectionBeforeAGrant(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	around := open(t, url)
	for name, grant := range map[string]func(s *Store, req backends.Request, before func()) (backends.Lease, error){
		"free": func(s *Store, req backends.Request, before func()) (backends.Lease, error) {
			return actsOn(t, s, req, before)
		},
		"its turn": func(s *Store, req backends.Request, before func()) (backends.Lease, error) {
			first := acquire(t, around, another(req))
			_, err := actsOn(t, s, req, before) // prepares a lease of the old term
			var answer *backends.HeldError
			if !errors.As(err, &answer) {
				return backends.Lease{}, err
			}
			release(t, around, first)
			wait(t, s, answer)
			before()
			return s.Acquire(t.Context(), req)
		},
	} {
		s, req := open(t, url), another(request(t))
		line(t, s, req.Key)
		now := s.cluster.raft.Load()
		lease, err := grant(s, req, func() { s.cluster.raft.Store(now - 1) })
		if err != nil || lease.TTL < req.TTL || s.cluster.raft.Load() != now {
			t.Fatalf("%s: %+v, %v, with Raft term %d heard of, not %d", name, lease, err, s.cluster.raft.Load(), now)
		}
		if got, want := leasesOf(t, s, req.Key)[req.ID], s.termOf(req.ID, forHold, req.TTL).id; clientv3.LeaseID(got) != want {
			t.Errorf("%s: under lease %x, want %x", name, got, want)
		}
		release(t, s, lease)
	}
}
