package servers_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends/backendtest/servers"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	for _, v := range []servers.Version{servers.Current, servers.Debian} {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			c := servers.ClusterOf(t, v, 3)
			put(t, c, 0)
			isolated := c.Leader()
			c.Isolate(isolated)
			leader := c.Leader(isolated)
			put(t, c, leader)
			wantsNoQuorum(t, c, isolated)
			c.Heal(isolated)
			put(t, c, isolated)

			killed := c.Leader()
			c.Members[killed].Kill()
			leader = c.Leader(killed)
			put(t, c, leader)
			c.Members[leader].Freeze()
			wantsNoQuorum(t, c, 3-killed-leader)
			c.Members[leader].Thaw()
			c.Members[killed].Start()
			put(t, c, killed)
		})
	}
}

func TestLead(t *testing.T) {
	t.Parallel()
	c := servers.EtcdCluster(t, 3)
	for _, member := range []int{0, 2, 1} {
		c.Lead(member)
		if leader := c.Leader(); leader != member {
			t.Errorf("member %d leads, not %d", leader, member)
		}
	}
	c.Members[0].Kill()
	c.Members[0].Start()
	c.Mend()
	put(t, c, 0)
}

// put writes through one member, for as long as it takes to agree again.
func put(t *testing.T, c *servers.Cluster, member int) {
	t.Helper()
	etcd := client(t, c.Endpoints()[member])
	deadline, cancel := context.WithTimeout(t.Context(), enough)
	defer cancel()
	for {
		ctx, cancel := context.WithTimeout(deadline, 2*time.Second)
		_, err := etcd.Put(ctx, "key", "value")
		cancel()
		if err == nil {
			return
		}
		if deadline.Err() != nil {
			t.Fatalf("put through member %d: %v", member, err)
		}
	}
}

// wantsNoQuorum says that a member is there and can agree on nothing.
func wantsNoQuorum(t *testing.T, c *servers.Cluster, member int) {
	t.Helper()
	etcd := client(t, c.Endpoints()[member])
	if _, err := etcd.Get(t.Context(), "key", clientv3.WithSerializable()); err != nil {
		t.Errorf("a read of its own data: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // four elections
	defer cancel()
	if _, err := etcd.Get(ctx, "key"); err == nil {
		t.Error("a linearizable read succeeded without a quorum")
	}
}
