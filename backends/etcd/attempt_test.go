package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// leasesLeft are those that the server has, the one of the runs' week left out.
func leasesLeft(t testing.TB, s *Store) (ids []int64) {
	t.Helper()
	resp, err := leases(t, s).LeaseLeases(t.Context(), &pb.LeaseLeasesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range resp.Leases {
		if l.ID != int64(runsTerm(s.prefix, time.Now()).id) {
			ids = append(ids, l.ID)
		}
	}
	return ids
}

// A grant that wasn't answered, of a run that then heard from another connection that the
// key is taken, can't come to life: the lease that it needs is gone.
func TestGrantThatHungOfOneThatSkipped(t *testing.T) {
	t.Parallel()
	x, s, around := proxied(t)
	req, other := request(t), request(t)
	line(t, s, req.Key) // it hears of the Raft term
	first := s.termOf(req.ID, forHold, req.TTL)
	lost := x.LoseReply(leaseOf(first))
	var lease backends.Lease
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		<-lost // the lease is made, and its answer lost
		lease = acquire(t, around, other)
	}()
	x.Delay(servers.Replies, 50*time.Millisecond) // so that the other is first
	_, err := s.Acquire(within(t), req)
	<-taken
	if !errors.Is(err, backends.ErrHeld) {
		t.Fatalf("Acquire = %v, want ErrHeld", err)
	}
	late := &asking{Request: req, s: around, n: around.names(req.Key), made: &attempt{}}
	release(t, around, lease)
	err = around.call(t.Context(), func(ctx context.Context, l *link) error {
		late.l = l
		r := late.promoted(late.record(), first, nil)
		_, err := l.txn(ctx, late.conds(r, nil, nil), late.puts(r, nil, first), nil)
		return err
	})
	if err == nil {
		t.Error("a late grant was applied")
	}
	if s.termOf(req.ID, forHold, req.TTL) == first {
		t.Error("asked again, it would use the lease that was to be revoked")
	}
	if got := line(t, around, req.Key); len(got) > 0 {
		t.Errorf("%v is in line", got)
	}
}

// Whoever loses the race for a free key leaves no lease.
func TestLoserLeavesNoLease(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s := open(t, url)
	before := len(leasesLeft(t, s))
	var made attempt
	req := request(t)
	err := s.call(t.Context(), func(ctx context.Context, l *link) error {
		a := &asking{Request: req, s: s, l: l, n: s.names(req.Key), made: &made}
		acquire(t, open(t, url), request(t)) // between the look and the grant
		_, err := a.hold(ctx, &view{clear: true})
		return err
	})
	if !errors.Is(err, errMoved) || len(made.leases) != 1 || made.open {
		t.Fatalf("%v, %+v", err, made)
	}
	if err := s.disown(t.Context(), req.ID, made, backends.ErrHeld); !errors.Is(err, backends.ErrHeld) {
		t.Error(err)
	}
	if n := len(leasesLeft(t, s)) - before; n != 1 { // the winner's
		t.Errorf("%d leases more, want one", n)
	}
}

// A run of a day leaves no lease of a day, and no more does who waited for one.
func TestLongLeaseEndsWithItsRun(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, req := open(t, url), request(t)
	req.TTL = 24 * time.Hour
	lease, waiter := acquire(t, s, req), another(req)
	held(t, s, waiter)
	if err := s.Release(t.Context(), waiter.Key, waiter.ID, backends.Outcome{}); err != nil {
		t.Error(err)
	}
	release(t, s, lease)
	for _, id := range leasesLeft(t, s) {
		left, err := leases(t, s).LeaseTimeToLive(t.Context(), &pb.LeaseTimeToLiveRequest{ID: id})
		if err != nil || left.TTL > int64(endedFor/time.Second) {
			t.Errorf("a lease is left: %+v, %v", left, err)
		}
	}
	if _, err := s.Acquire(t.Context(), req); !errors.Is(err, backends.ErrLost) {
		t.Errorf("asked again: %v, want ErrLost", err)
	}
}

// A full database and an election, as when an administrator restarts a member to make room,
// cost no job its lease, and no waiter its place.
func TestFullDatabaseAndAnElection(t *testing.T) {
	t.Parallel()
	p, url := server(t, "--quota-backend-bytes", "4194304")
	s, req := open(t, url), request(t)
	lease, waiter := acquire(t, s, req), another(req)
	held(t, s, waiter)
	fill(t, s)
	p.Stop()
	p.Start()
	renewsWithin(t, s, lease)
	renew(t, s, lease)
	s.memory.note(waiter.ID, func(k *known) { k.prepared = time.Time{} }) // as after half a lease
	held(t, s, waiter)
	release(t, s, lease)
}

// Next to a member that refuses, and one that hangs, the third is found in short tries.
func TestShortTriesFindTheThirdMember(t *testing.T) {
	t.Parallel()
	c := servers.EtcdCluster(t, 3)
	leader := c.Leader()
	x := servers.Proxy(t, c.Endpoints()[(leader+1)%3])
	s := open(t, "etcd://"+x.Addr+","+c.Endpoints()[(leader+2)%3]+","+c.Endpoints()[leader])
	s.cluster.next = 0
	req := request(t)
	req.TTL = 10 * time.Second
	lease := acquire(t, s, req)
	c.Members[(leader+2)%3].Freeze()
	x.Refuse(true)
	x.Cut()
	for end := time.Now().Add(req.TTL); ; {
		ctx, cancel := context.WithTimeout(t.Context(), 230*time.Millisecond) // an attempt at a TTL of 2 s
		_, err := s.Renew(ctx, lease)
		if cancel(); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("Renew = %v", err)
		}
	}
}

// In a full database, the one whose turn has come keeps its place, and what isn't there is
// said to be gone.
func TestTurnInAFullDatabase(t *testing.T) {
	t.Parallel()
	_, url := server(t, "--quota-backend-bytes", "4194304")
	s, req := open(t, url), request(t)
	lease, waiter := acquire(t, s, req), another(req)
	waiter.Place = 5 * time.Second
	held(t, s, waiter)
	fill(t, s)
	release(t, s, lease)
	if err := s.Release(t.Context(), req.Key, lease.ID, backends.Outcome{}); !errors.Is(err, backends.ErrLost) {
		t.Errorf("released again: %v, want ErrLost", err)
	}
	s.memory.note(waiter.ID, func(k *known) { k.hold = term{} }) // its lease for the hold has ended
	for end := time.Now().Add(2 * waiter.Place); time.Now().Before(end); time.Sleep(waiter.Place / 8) {
		if _, err := s.Acquire(t.Context(), waiter); err == nil {
			t.Fatal("granted in a full database")
		}
	}
	if got := line(t, s, req.Key); len(got) != 1 || got[0] != waiter.ID {
		t.Errorf("%v is in line, want the waiter", got)
	}
}
