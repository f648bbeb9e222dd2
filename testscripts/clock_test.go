//go:build linux

package testscripts

import (
	"testing"
	"time"

	"flockd/backends/backendtest/servers"
)

// onClocks runs a test on each store whose server goes by a clock that can be set.
func onClocks(t *testing.T, test func(*rig, *servers.WallClock)) {
	for _, s := range []store{redis, postgres, mysql} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			clock := servers.Clock(t)
			test(served(t, s, s.clocked(t, clock)), clock)
		})
	}
}

// A server's clock that is set forward ends leases. The holder hears of it with its next
// renewal, and the token tells who came later.
func TestClockIsSetForward(t *testing.T) {
	t.Parallel()
	onClocks(t, func(r *rig, clock *servers.WallClock) {
		j := r.run(r.via, "k", "--ttl", "3s", "--", "sh", "-c", "echo $FLOCKD_TOKEN >first; exec probe stamps deaf")
		r.await("stamps")
		clock.Step(time.Minute)
		r.run(r.direct, "k", "--", "sh", "-c", "echo $FLOCKD_TOKEN >second").ends(0)
		j.ends(79).says("lost the lock on k")
		if first, second := r.number("first"), r.number("second"); second <= first {
			r.Errorf("token %d after %d", second, first)
		}
	})
}

// Set back, it makes a lease longer, which costs nobody a command.
func TestClockIsSetBack(t *testing.T) {
	t.Parallel()
	onClocks(t, func(r *rig, clock *servers.WallClock) {
		j := r.works("4", "--ttl", "3s")
		before := r.token()
		clock.Step(-time.Hour)
		r.run(r.direct, "k", "--", "touch", "ran").ends(75)
		j.ends(0)
		r.free(0)
		if after := r.token(); after <= before {
			r.Errorf("token %d after %d", after, before)
		}
	})
}
