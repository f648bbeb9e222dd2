//go:build linux

package testscripts

import (
	"testing"
	"time"

	"flockd/backends/backendtest/servers"
)

// pair is a rig whose URL names a primary and its standby.
type pair struct {
	*rig
	*servers.PostgresPair
}

func newPair(t *testing.T) pair {
	p := pair{newFolder(t), servers.ReplicatedPostgres(t)}
	p.store, p.direct = postgres, postgres.url(p.Standby.Addr, p.Primary.Addr)
	p.via = p.direct
	return p
}

// fail has the standby take over from a primary that is gone.
func (p pair) fail() {
	p.Primary.Kill()
	p.Promote()
}

// A failover to a standby that has all: the hold is renewed there.
func TestPostgresFailover(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	j := p.works("7", "--ttl", "6s")
	w := p.run(p.direct, "k", "--wait", "1m", "--", "true")
	p.waiting(w)
	p.Await()
	p.fail()
	j.ends(0)
	w.ends(0)
	p.free(0)
}

// A standby that missed the grant takes over, and grants the key to another: two run, until
// the first one's next renewal. The second has the larger token.
func TestPostgresFailoverThatLosesAWrite(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.run(p.direct, "k", "--", "true").ends(0)
	p.Part()
	j := p.run(p.via, "k", "--ttl", "3s", "--", "sh", "-c", "echo $FLOCKD_TOKEN >first; exec probe stamps deaf")
	p.await("stamps")
	p.fail()
	next := p.run(p.direct, "k", "--max-runtime", "2s", "--exit", "max-runtime=0", "--", "sh", "-c", "echo $FLOCKD_TOKEN >second; exec probe next")
	j.ends(79).says("lost the lock on k")
	next.ends(0)
	t.Logf("two ran together for %v", time.Duration(p.number("stamps")-p.number("next.first")))
	if first, second := p.number("first"), p.number("second"); second <= first {
		t.Errorf("token %d after %d", second, first)
	}
}

// A primary that waits for its standby loses nothing: who has been granted the key holds it
// after a failover, too.
func TestPostgresSynchronousFailover(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.Synchronous()
	j := p.works("7", "--ttl", "6s")
	p.fail()
	p.run(p.direct, "k", "--", "touch", "ran").ends(75)
	j.ends(0)
	p.free(0)
}
