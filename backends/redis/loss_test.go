package redis

import (
	"net"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// grows takes the key again, by another client, and wants a larger token.
func grows(t testing.TB, s *Store, after backends.Lease) backends.Lease {
	t.Helper()
	lease := acquire(t, s, request(after.Key))
	if lease.Token <= after.Token {
		t.Errorf("token %d after %d", lease.Token, after.Token)
	}
	return lease
}

func renewIsLost(t testing.TB, s *Store, lease backends.Lease) {
	t.Helper()
	_, err := s.Renew(t.Context(), lease)
	isLost(t, err, "Renew")
}

func TestTokensGrowOverFlush(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	lease := acquire(t, s, request("a"))
	do(t, s, "FLUSHALL")
	renewIsLost(t, s, lease)
	if line := inspect(t, s, "a").Line; len(line) > 0 {
		t.Errorf("the renewal inserted %+v", line)
	}
	next := grows(t, s, lease)
	isLost(t, s.Release(t.Context(), "a", lease.ID, backends.Outcome{}), "release by the one before")
	renew(t, s, next)
}

func TestTokensGrowOverRestart(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	s := open(t, "redis://"+server.Addr)
	lease := acquire(t, s, request("a"))
	server.Kill()
	_, err := s.Renew(t.Context(), lease)
	wantTrouble(t, err, "connection refused")
	server.Start()
	renewIsLost(t, s, lease)
	grows(t, s, lease)
}

// What is kept on disk survives with its leases.
func TestRestartWithPersistence(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, "redis://"+server.Addr)
	lease := acquire(t, s, request("a"))
	server.Kill()
	server.Start()
	renew(t, s, lease)
	release(t, s, lease)
	grows(t, s, lease)
}

// replicate makes replica follow primary, and returns when it has its data.
func replicate(t testing.TB, replica *Store, primary *servers.Process) {
	t.Helper()
	host, port, _ := net.SplitHostPort(primary.Addr)
	do(t, replica, "REPLICAOF", host, port)
	awaitInfo(t, replica, "replication", "master_link_status:up")
}

// A replica that missed the last grant becomes primary: two may hold then, but the
// tokens tell them apart.
func TestTokensGrowOverFailover(t *testing.T) {
	t.Parallel()
	primary, replica := servers.Redis(t, "--repl-diskless-sync-delay", "0"), servers.Redis(t)
	a, b := open(t, "redis://"+primary.Addr), open(t, "redis://"+replica.Addr)
	do(t, b, "PING") // before it is a replica
	release(t, a, acquire(t, a, request("a")))
	replicate(t, b, primary)
	do(t, b, "REPLICAOF", "127.0.0.1", "1") // nobody there: it hears nothing from now on
	lease := acquire(t, a, request("a"))
	primary.Kill()
	do(t, b, "REPLICAOF", "NO", "ONE")
	if keys := do(t, b, "EXISTS", "flockd:{a}:key"); keys != int64(1) {
		t.Error("the replica had no data")
	}
	renewIsLost(t, b, lease)
	grows(t, b, lease)
}

// A grant or renewal that too few replicas have doesn't count, and may yet.
func TestMinReplicas(t *testing.T) {
	t.Parallel()
	primary, replica := servers.Redis(t, "--repl-diskless-sync-delay", "0"), servers.Redis(t)
	s := open(t, "redis://"+primary.Addr+"?min-replicas=1&timeout=1s")
	b := open(t, "redis://"+replica.Addr)
	do(t, b, "PING") // before it is a replica
	r := request("a")
	tooFew(t, "0 of 1 replicas", func() error { _, err := s.Acquire(t.Context(), r); return err })
	replicate(t, b, primary)
	lease := confirmed(t, s, r)
	renew(t, s, lease)
	if h := held(t, s, request("a")); len(h.Holders) != 1 {
		t.Errorf("held by %+v", h.Holders)
	}
	do(t, b, "REPLICAOF", "NO", "ONE")
	tooFew(t, "0 of 1 replicas", func() error { _, err := s.Renew(t.Context(), lease); return err })
	release(t, s, lease) // needs nobody: what is lost of it expires
	two := open(t, "redis://"+primary.Addr+"?min-replicas=2&timeout=1s")
	replicate(t, b, primary)
	confirmed(t, s, request("b"))
	tooFew(t, "1 of 2 replicas", func() error { _, err := two.Acquire(t.Context(), request(backends.NewID())); return err })
}

// tooFew wants an error that says so. A busy machine may be so late that there is no
// answer in time: then it asks again.
func tooFew(t testing.TB, text string, ask func() error) {
	t.Helper()
	await(t, text, func() (string, bool) {
		err := ask()
		if err != nil && strings.Contains(err.Error(), "no answer in time") {
			return err.Error(), false
		}
		wantTrouble(t, err, text)
		return "", true
	})
}

// confirmed asks until the replica takes part, which may be a second after it has its data.
func confirmed(t testing.TB, s *Store, r backends.Request) backends.Lease {
	t.Helper()
	var lease backends.Lease
	await(t, "a grant that a replica has", func() (string, bool) {
		var err error
		if lease, err = s.Acquire(t.Context(), r); err == nil {
			return "", true
		}
		if !strings.Contains(err.Error(), "no answer in time") {
			wantTrouble(t, err, "0 of 1 replicas")
		}
		return err.Error(), false
	})
	return lease
}

// Eviction may take any part of a key. What is left is never taken for a hold that
// another may have beside it.
func TestEvictedParts(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	for part, lost := range map[string]bool{"line": true, "claims": true, "ends": false, "key": false, "index": false} {
		lease := acquire(t, s, request(part))
		waiter := queue(part)
		held(t, s, waiter)
		do(t, s, "DEL", s.to.prefix.part(part, part))
		if !lost {
			renew(t, s, lease)
			if h := held(t, s, waiter); len(h.Holders) != 1 || h.Holders[0].ID != lease.ID {
				t.Errorf("without %s: held by %+v", part, h)
			}
			release(t, s, lease)
			next := acquire(t, s, waiter)
			if next.Token <= lease.Token {
				t.Errorf("without %s: token %d after %d", part, next.Token, lease.Token)
			}
			release(t, s, next)
			grows(t, s, next)
			continue
		}
		renewIsLost(t, s, lease)
		if status := inspect(t, s, part); len(status.Line) > 0 {
			t.Errorf("without %s: line %+v", part, status.Line)
		}
		next := grows(t, s, lease)
		renewIsLost(t, s, lease)
		renew(t, s, next)
	}
}

// Without the index, nobody gets what another has, and all is found again.
func TestEvictedIndex(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	slot := func() backends.Request {
		r := queue("a")
		r.Mode, r.Slots = backends.Slots, 3
		return r
	}
	first, second := acquire(t, s, slot()), acquire(t, s, slot())
	for _, part := range []string{"index", "ends"} {
		release(t, s, first)
		do(t, s, "DEL", s.to.prefix.part("a", part))
		renew(t, s, second)
		shared := request("a")
		shared.Mode = backends.Shared
		if h := held(t, s, shared); len(h.Holders) != 1 || h.Holders[0].ID != second.ID {
			t.Errorf("without %s: held by %+v", part, h.Holders)
		}
		first, second = second, acquire(t, s, slot())
		if first.Slot == second.Slot {
			t.Errorf("without %s: slot %d twice", part, first.Slot)
		}
	}
}

// While there are claims, nothing has a TTL: some policies evict first what has one.
// Of a key that nobody uses, what is left is forgotten in the end.
func TestWhatExpires(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	key := s.to.prefix.part("a", "key")
	ttls := func() (all []int64) {
		for _, part := range []string{"line", "ends", "claims", "key", "index"} {
			name := s.to.prefix.part("a", part)
			all = append(all, do(t, s, "PTTL", name).(int64))
		}
		return all
	}
	for range 2 { // the second time, the record is there with its TTL
		lease := acquire(t, s, request("a"))
		for i, ttl := range ttls() {
			if ttl != -1 {
				t.Errorf("part %d of a held key has a TTL of %d ms", i, ttl)
			}
		}
		release(t, s, lease)
		left := ttls()
		if left[0] != -2 || left[1] != -2 || left[2] != -2 || left[4] != -2 {
			t.Errorf("left of a free key: %d", left)
		}
		if d := idle - time.Duration(left[3])*time.Millisecond; d < 0 || d > time.Minute {
			t.Errorf("%s has a TTL of %d ms", key, left[3])
		}
		ended := do(t, s, "PTTL", s.to.prefix.part("a", "ended:"+lease.ID)).(int64)
		if d := tombstone - time.Duration(ended)*time.Millisecond; d < 0 || d > time.Minute {
			t.Errorf("the tombstone has a TTL of %d ms", ended)
		}
	}
	do(t, s, "RESTORE", key, 0, do(t, s, "DUMP", key), "REPLACE") // as if it had never expired
	lease := acquire(t, s, request("a"))
	if err := s.Ask(t.Context(), "a", lease.ID, backends.Notice{Force: true}); err != nil {
		t.Error(err)
	}
	if left := ttls(); left[3] <= 0 {
		t.Errorf("after a removal: TTLs %d", left)
	}
	isLost(t, s.Release(t.Context(), "a", lease.ID, backends.Outcome{}), "Release")
	ended := do(t, s, "PTTL", s.to.prefix.part("a", "ended:"+lease.ID)).(int64)
	if d := backends.RemovedFor - time.Duration(ended)*time.Millisecond; d < 0 || d > time.Minute {
		t.Errorf("the tombstone of what was removed has a TTL of %d ms", ended)
	}
}

// A step of the server's clock ends leases early or late, and no more than that: a
// renewal that succeeds proves that nobody came between, and tokens grow.
func TestServerClockSteps(t *testing.T) {
	t.Parallel()
	clock := servers.Clock(t)
	s := open(t, "redis://"+clock.Redis(t).Addr)
	lease := acquire(t, s, request("a"))
	clock.Step(30 * time.Second)
	renew(t, s, lease)
	clock.Step(2 * time.Minute)
	renewIsLost(t, s, lease)
	lease = grows(t, s, lease)
	clock.Step(-time.Hour)
	renew(t, s, lease)
	release(t, s, lease)
	grows(t, s, lease)
	held(t, s, request("a"))
}
