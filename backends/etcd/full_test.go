package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// fill writes until the database is full, which etcd then says until it is told that
// it isn't any more.
func fill(t testing.TB, s *Store) {
	t.Helper()
	ctx := within(t)
	text := strings.Repeat("x", 512<<10)
	for {
		err := s.call(ctx, func(ctx context.Context, l *link) error {
			_, err := l.txn(ctx, nil, []clientv3.Op{clientv3.OpPut("filler", text)}, nil)
			return err
		})
		if err != nil && strings.Contains(s.classify(err).Error(), "NOSPACE") {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// With a full database nobody gets a key, but those who hold one keep it and give it
// back.
func TestDatabaseFull(t *testing.T) {
	t.Parallel()
	_, url := server(t, "--quota-backend-bytes", "4194304")
	s, req := open(t, url), request(t)
	brief := another(req)
	short := req
	short.Key, short.ID, short.TTL = req.Key+"/short", backends.NewID(), 30*time.Second
	lease, shortLease := acquire(t, s, req), acquire(t, s, short)
	held(t, s, brief)
	fill(t, s)
	renew(t, s, lease)
	renew(t, s, shortLease)
	held(t, s, brief)
	fresh := request(t)
	fresh.Key += "/fresh"
	_, err := s.Acquire(t.Context(), fresh)
	if err == nil || !strings.Contains(err.Error(), "its database is full (alarm NOSPACE)") || strings.Contains(err.Error(), "rpc error") {
		t.Errorf("Acquire = %v", err)
	}
	release(t, s, lease)
	release(t, s, shortLease)
	if err := s.Release(t.Context(), brief.Key, brief.ID, backends.Outcome{}); err != nil {
		t.Errorf("Release of a place = %v", err)
	}
	for _, key := range []string{req.Key, short.Key} {
		if ids := line(t, s, key); len(ids) > 0 {
			t.Errorf("%q: %v is in line", key, ids)
		}
	}
	// A request that hangs since before the release finds no lease to write under.
	isGone(t, s, s.termOf(req.ID, forHold, req.TTL))
}

// isGone checks that a lease has ended.
func isGone(t testing.TB, s *Store, lease term) {
	t.Helper()
	if _, err := (&link{leases: leases(t, s)}).keepAlive(t.Context(), lease.id); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		t.Errorf("extending lease %x = %v", lease.id, err)
	}
}

// revoke ends a lease, whether it is there or not.
func revoke(t testing.TB, s *Store, lease term) {
	t.Helper()
	if err := (&link{leases: leases(t, s)}).revoke(t.Context(), lease.id); err != nil {
		t.Error(err)
	}
}

func leases(t testing.TB, s *Store) pb.LeaseClient {
	l, err := s.cluster.connected(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l.leases
}
