//go:build linux

package testscripts

import (
	"testing"
	"time"

	"flockd/backends/backendtest/servers"
)

// A server's clock that is set forward ends leases: that is Redis. The holder hears of
// it with its next renewal, and the token tells who came later.
func TestRedisClockIsSetForward(t *testing.T) {
	t.Parallel()
	clock := servers.Clock(t)
	r := served(t, redis, clock.Redis(t))
	j := r.run(r.via, "k", "--ttl", "3s", "--", "sh", "-c", "echo $FLOCKD_TOKEN >first; exec probe stamps deaf")
	r.await("stamps")
	clock.Step(time.Minute)
	r.run(r.direct, "k", "--", "sh", "-c", "echo $FLOCKD_TOKEN >second").ends(0)
	j.ends(79).says("lost the lock on k")
	if first, second := r.number("first"), r.number("second"); second <= first {
		t.Errorf("token %d after %d", second, first)
	}
}

// Set back, it makes a lease longer, which costs nobody a command.
func TestRedisClockIsSetBack(t *testing.T) {
	t.Parallel()
	clock := servers.Clock(t)
	r := served(t, redis, clock.Redis(t))
	j := r.works("4", "--ttl", "3s")
	before := r.token()
	clock.Step(-time.Hour)
	r.run(r.direct, "k", "--", "touch", "ran").ends(75)
	j.ends(0)
	r.free(0)
	if after := r.token(); after <= before {
		t.Errorf("token %d after %d", after, before)
	}
}

// A Redis that keeps nothing forgets its holds when it starts again: the holder stops
// its command at its next renewal, and tokens go on growing.
func TestRedisForgets(t *testing.T) {
	t.Parallel()
	r := served(t, redis, servers.Redis(t))
	before := r.token()
	j := r.probes("stamps", "--ttl", "3s")
	r.server.Kill()
	r.server.Start()
	j.ends(79).says("lost the lock on k")
	if after := r.token(); after <= before {
		t.Errorf("token %d after %d", after, before)
	}
}
