package etcd

import (
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

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
		if _, err := leases(t, s).LeaseRevoke(t.Context(), &pb.LeaseRevokeRequest{ID: old}); err != nil {
			t.Error(err)
		}
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
