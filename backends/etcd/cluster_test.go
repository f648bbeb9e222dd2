package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// attached is a client of all members that is connected to that one.
func attached(t testing.TB, c *servers.Cluster, member int) *Store {
	t.Helper()
	s := open(t, "etcd://"+strings.Join(c.Endpoints(), ","))
	l, err := dial(within(t), c.Endpoints()[member], nil, &s.cluster.raft, s.cluster.options...)
	if err != nil {
		t.Fatal(err)
	}
	s.cluster.keep(l)
	if line(t, s, "x"); s.cluster.link != l {
		t.Fatalf("connected to %d", s.cluster.next)
	}
	return s
}

// only is a client of one member.
func only(t testing.TB, c *servers.Cluster, member int) *Store {
	t.Helper()
	return open(t, "etcd://"+c.Endpoints()[member]+"?timeout=1")
}

// renewsWithin renews again and again, as the holder of a lease does, and must
// succeed before the lease has ended.
func renewsWithin(t testing.TB, s *Store, lease backends.Lease) {
	t.Helper()
	var err error
	for end := time.Now().Add(lease.TTL); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(t.Context(), lease.TTL/8)
		_, err = s.Renew(ctx, lease)
		if cancel(); err == nil {
			return
		}
		if errors.Is(err, backends.ErrLost) {
			break
		}
		isPlain(t, err)
	}
	t.Fatalf("Renew = %v", err)
}

// The loss of a leader costs nobody the lease, whichever member the client uses.
func TestLeaderIsLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(c *servers.Cluster, leader int) (back func()){
		"killed": func(c *servers.Cluster, leader int) func() {
			c.Members[leader].Kill()
			return c.Members[leader].Start
		},
		"frozen": func(c *servers.Cluster, leader int) func() {
			c.Members[leader].Freeze()
			return c.Members[leader].Thaw
		},
		"cut off": func(c *servers.Cluster, leader int) func() {
			c.Isolate(leader)
			return func() { c.Heal(leader) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := servers.EtcdCluster(t, 3)
			leader := c.Leader()
			with, without := attached(t, c, leader), attached(t, c, (leader+1)%3)
			req := request(t)
			req.TTL = 20 * time.Second
			other := req
			other.Key, other.ID = req.Key+"/other", backends.NewID()
			lease, otherLease := acquire(t, with, req), acquire(t, without, other)
			back := lose(c, leader)
			renewsWithin(t, with, lease)
			renewsWithin(t, without, otherLease)
			held(t, without, another(req))
			back()
			renewsWithin(t, with, lease)
			release(t, with, lease)
			release(t, without, otherLease)
		})
	}
}

// A leader that was cut off, and doesn't know yet that there is another, renews nothing
// any more.
func TestDeposedLeader(t *testing.T) {
	t.Parallel()
	c := servers.EtcdCluster(t, 3)
	old := c.Leader()
	s := only(t, c, old)
	lease := acquire(t, s, request(t))
	answer := held(t, s, another(request(t)))
	waited := make(chan error, 1)
	waiter := only(t, c, old) // apart from the renewals, which give their connection up
	line(t, waiter, lease.Key)
	go func() { waited <- waiter.Wait(within(t), answer) }()
	c.Isolate(old)
	next := attached(t, c, c.Leader(old))
	ask(t, next, lease, remove)
	for range 5 { // 2 s: before it notices, after an election's 0.5 s, that it is cut off, and long after
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		_, err := s.Renew(ctx, lease)
		if cancel(); err == nil {
			t.Fatal("the deposed leader renews a hold that was removed")
		}
		if errors.Is(err, backends.ErrLost) {
			t.Fatalf("Renew = %v, which it can't know", err)
		}
		isPlain(t, err)
	}
	if err := <-waited; err == nil || !strings.Contains(err.Error(), "no leader") {
		t.Errorf("Wait at a member without a leader = %v, want its word for that", err)
	}
	c.Heal(old)
	ctx := within(t)
	for err := error(nil); !errors.Is(err, backends.ErrLost); {
		if _, err = s.Renew(ctx, lease); err == nil || ctx.Err() != nil {
			t.Fatalf("Renew after healing = %v, want ErrLost", err)
		}
	}
}

// Without a quorum nothing is granted and nothing renewed, with the reason; with it
// back, what was held is held.
func TestNoQuorum(t *testing.T) {
	t.Parallel()
	c := servers.EtcdCluster(t, 3)
	leader := c.Leader()
	s := attached(t, c, leader)
	lease := acquire(t, s, request(t))
	for i, member := range c.Members {
		if i != leader {
			member.Kill()
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, renewal := s.Renew(ctx, lease)
	_, fresh := only(t, c, leader).Acquire(t.Context(), another(request(t)))
	for call, err := range map[string]error{"Renew": renewal, "Acquire": fresh} {
		if err == nil || !strings.Contains(err.Error(), "quorum") || errors.Is(err, backends.ErrRefused) {
			t.Errorf("%s = %v", call, err)
		}
		isPlain(t, err)
	}
	for i, member := range c.Members {
		if i != leader {
			member.Start()
		}
	}
	renewsWithin(t, s, lease)
	release(t, s, lease)
}
