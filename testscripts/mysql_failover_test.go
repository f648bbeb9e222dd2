//go:build linux

package testscripts

import (
	"testing"
	"time"

	"flockd/backends/backendtest/servers"
)

// replicated is a rig with a primary and a replica, as one store.
type replicated struct {
	*rig
	*servers.MariaDBPair
}

func newReplicated(t *testing.T) replicated {
	p := replicated{newFolder(t), servers.ReplicatedMariaDB(t)}
	p.store, p.server = mysql, p.Primary
	p.direct = mysql.url(p.Primary.Addr, p.Replica.Addr)
	p.via = p.direct
	return p
}

// failover is an ordinary one.
func (p replicated) failover() {
	p.Helper()
	p.Primary.Kill()
	p.Promote()
}

func TestMySQLFailover(t *testing.T) {
	t.Parallel()
	for name, show := range map[string]func(*testing.T){
		"TheReplicaHasTheHold": failoverKept, "TheReplicaMissedTheHold": failoverMissed, "TheReplicaMustHaveIt": failoverSemiSync,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			show(t)
		})
	}
}

// A replica that had all costs nobody a lease.
func failoverKept(t *testing.T) {
	p := newReplicated(t)
	j := p.works("7", "--ttl", "6s")
	p.Await()
	p.failover()
	p.run(p.direct, "k", "--", "touch", "ran").ends(75)
	j.ends(0)
	p.free(0)
}

// A hold that the new primary never heard of is lost: until the holder's next renewal,
// two may run. The token tells who came later.
func failoverMissed(t *testing.T) {
	p := newReplicated(t)
	before := p.token()
	p.Part()
	j := p.run(p.via, "k", "--ttl", "3s", "--", "sh", "-c", "echo $FLOCKD_TOKEN >first; exec probe stamps deaf")
	p.await("stamps")
	p.failover()
	next := p.run(p.direct, "k", "--max-runtime", "2s", "--exit", "max-runtime=0", "--", "sh", "-c", "echo $FLOCKD_TOKEN >second; exec probe next")
	j.ends(79).says("lost the lock on k")
	next.ends(0)
	t.Logf("two ran together for %v", time.Duration(p.number("stamps")-p.number("next.first")))
	if first, second := p.number("first"), p.number("second"); first <= before || second <= first {
		t.Errorf("tokens %d, %d, %d", before, first, second)
	}
}

// Where the primary may acknowledge nothing that the replica lacks, there is no such hold.
func failoverSemiSync(t *testing.T) {
	p := newReplicated(t)
	p.Semisync()
	before := p.token()
	p.Part()
	p.run(mysql.url(p.Primary.Addr), "k", "--", "touch", "ran").ends(69)
	if p.exists("ran") {
		t.Error("it was granted by the primary alone")
	}
	p.failover()
	if after := p.token(); after <= before {
		t.Errorf("token %d after %d", after, before)
	}
}

// A server that is read-only is passed by, and refused where it is the only one.
func TestMySQLReadOnly(t *testing.T) {
	t.Parallel()
	r := newFolder(t)
	writes, reads := servers.MariaDB(t), servers.MariaDB(t, "--read-only=1")
	r.run(mysql.url(reads.Addr, writes.Addr), "k", "--", "true").ends(0)
	r.refused(mysql.url(reads.Addr), 69, "takes no writes")
}
