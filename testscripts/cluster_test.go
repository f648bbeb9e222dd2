//go:build linux

package testscripts

import (
	"testing"
	"time"

	"flockd/backends/backendtest/servers"
)

// cluster is a rig with three members of etcd.
type cluster struct {
	*rig
	*servers.Cluster
}

func newCluster(t *testing.T, version servers.Version) cluster {
	c := cluster{newFolder(t), servers.ClusterOf(t, version, 3)}
	c.store, c.direct = etcd, etcd.url(c.Endpoints()...)
	c.via = c.direct
	return c
}

// through is the store as seen by who reaches these members alone.
func (c cluster) through(members ...int) string {
	var addrs []string
	for _, m := range members {
		addrs = append(addrs, c.Members[m].Addr)
	}
	return etcd.url(addrs...)
}

// others are the members but one.
func (c cluster) others(member int) []int {
	return []int{(member + 1) % 3, (member + 2) % 3}
}

// TestCluster shows what becomes of holds when a cluster isn't whole. Nobody else is at
// work, and few clusters are there at once: a member that is kept waiting for the disk by
// thirty of its kind loses its leader.
func TestCluster(t *testing.T) {
	var all []func()
	for _, c := range []struct {
		name string
		show func(cluster)
	}{
		{"LeaderDies", leaderDies}, // these take longest
		{"LeaderIsFrozen", leaderFrozen},
		{"QuorumIsLost", noQuorum},
		{"OneEndpointIsDead", deadEndpoint},
		{"HolderIsOnTheMinoritySide", minority},
	} {
		for _, version := range []servers.Version{servers.Current, servers.Debian} {
			all = append(all, func() {
				t.Run(version.String()+"/"+c.name, func(t *testing.T) { c.show(newCluster(t, version)) })
			})
		}
	}
	beside(5, all)
}

// An ordinary change of leader costs nobody a lease.
func leaderDies(c cluster) {
	j := c.works("22", "--ttl", "20s")
	leader := c.Leader()
	c.Members[leader].Kill()
	c.Leader(leader)
	c.run(c.direct, "k", "--", "touch", "ran").ends(75)
	j.ends(0)
	c.free(0)
}

func leaderFrozen(c cluster) {
	j := c.works("22", "--ttl", "20s")
	leader := c.Leader()
	c.Members[leader].Freeze()
	c.Leader(leader)
	j.ends(0)
	c.Members[leader].Thaw()
	c.free(0)
}

// The leader is cut off from the others, and a holder reaches it alone: it can't be
// told that its lease lasts by one who can't know.
func minority(c cluster) {
	leader := c.Leader()
	c.via, c.direct = c.through(leader), c.through(c.others(leader)...)
	j := c.probes("stamps", "--ttl", "2s")
	next := c.successor()
	c.Isolate(leader)
	j.lost()
	next.ends(0)
	c.before("stamps", "next")
	c.Heal(leader)
	c.direct = c.through(leader)
	c.free(2 * time.Second)
}

func deadEndpoint(c cluster) {
	dead := c.others(c.Leader())[0]
	c.Members[dead].Kill()
	j := c.run(c.through(dead, c.others(dead)[0], c.others(dead)[1]), "k", "--ttl", "10s", "--", "sleep", "11")
	j.ends(0)
	c.free(0)
}

func noQuorum(c cluster) {
	j := c.probes("stamps", "--ttl", "2s")
	c.Members[0].Kill()
	c.Members[1].Kill()
	j.lost()
	c.run(c.direct, "k", "--", "touch", "ran").ends(69)
	if c.exists("ran") {
		c.Error("a minority granted the key")
	}
	c.Members[0].Start()
	c.next().ends(0)
	c.before("stamps", "next")
}

// What the server makes of a TTL is said, seen by the command, and what the deadlines
// go by.
func TestShortTTLIsRaised(t *testing.T) {
	t.Parallel()
	r := served(t, etcd, servers.Etcd(t, servers.Current, "--heartbeat-interval", "100", "--election-timeout", "1000"))
	r.run(r.direct, "k", "--ttl", "1s", "--", "sh", "-c", "echo $FLOCKD_TTL >ttl").ends(0).says("asked=1s granted=2s")
	if got := r.number("ttl"); got != 2 {
		t.Errorf("the command sees a TTL of %d s, want 2", got)
	}
}
