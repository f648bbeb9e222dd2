package servers

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// Cluster is an etcd of several members. What one sends another goes through a proxy of
// that pair, so that a member can be cut off while clients still reach it.
type Cluster struct {
	Members []*Process

	t      testing.TB
	ids    []string      // of the members, as etcd calls them
	fronts []string      // the address at which the others reach a member
	links  [][]*TCPProxy // from the first to the second
}

// EtcdCluster starts a cluster of current etcds and returns when it has a leader.
func EtcdCluster(t testing.TB, members int) *Cluster {
	t.Helper()
	return ClusterOf(t, Current, members)
}

// ClusterOf is EtcdCluster with a choice of the version.
func ClusterOf(t testing.TB, version Version, members int) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	peers := make([]string, members)
	var names []string
	for i := range members {
		peers[i] = address(t)
		c.fronts = append(c.fronts, address(t))
		names = append(names, fmt.Sprintf("m%d=http://%s", i, c.fronts[i]))
	}
	c.link(peers)
	for i := range members {
		m := member{fmt.Sprint("m", i), "http://" + peers[i], "http://" + c.fronts[i], strings.Join(names, ",")}
		c.Members = append(c.Members, prepare(t, address(t), serves, nil, m.command(t, version)...))
	}
	for i := range members {
		go c.serve(c.listen(i), i)
	}
	c.start()
	return c
}

// link makes the proxies between the members, given where each listens.
func (c *Cluster) link(peers []string) {
	for range peers {
		var row []*TCPProxy
		for _, peer := range peers {
			row = append(row, newProxy(c.t, peer))
		}
		c.links = append(c.links, row)
	}
}

func (c *Cluster) listen(member int) net.Listener {
	c.t.Helper()
	l, err := listen(c.fronts[member])
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { l.Close() })
	return l
}

// serve hands what connects to a member to the proxy of the pair.
func (c *Cluster) serve(l net.Listener, to int) {
	for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
		client := conn.(*net.TCPConn)
		if from, ok := c.sender(client); ok {
			c.links[from][to].adopt(client)
			continue
		}
		client.Close() // it has ended meanwhile
	}
}

// sender is the member that made a connection. Nothing in what members say to each
// other tells it in every case, but the kernel knows.
func (c *Cluster) sender(conn *net.TCPConn) (int, bool) {
	inode, err := inodeOf(conn.RemoteAddr().(*net.TCPAddr), conn.LocalAddr().(*net.TCPAddr))
	if err != nil {
		return 0, false
	}
	for i, member := range c.Members {
		if pid := member.PID(); pid != 0 && hasSocket(pid, inode) {
			return i, true
		}
	}
	return 0, false
}

// start starts all members, and learns what they call themselves.
func (c *Cluster) start() {
	c.t.Helper()
	for _, member := range c.Members {
		member.Launch()
	}
	for _, member := range c.Members {
		member.Await()
	}
	if c.t.Failed() {
		c.t.FailNow()
	}
	for _, member := range c.Members {
		s, err := statusOf(member.Addr)
		if err != nil {
			c.t.Fatalf("%s: %v", member, err)
		}
		c.ids = append(c.ids, s.Header.Member)
	}
}

// Endpoints are the addresses of all members.
func (c *Cluster) Endpoints() []string {
	var addrs []string
	for _, member := range c.Members {
		addrs = append(addrs, member.Addr)
	}
	return addrs
}

// Isolate cuts a member off from the others, in both directions: as with a cable that
// was pulled, nothing arrives and nothing is reset. Clients still reach it.
func (c *Cluster) Isolate(member int) { c.each(member, (*TCPProxy).Stall) }

// Heal ends Isolate.
func (c *Cluster) Heal(member int) { c.each(member, (*TCPProxy).Pass) }

func (c *Cluster) each(member int, apply func(*TCPProxy, Direction)) {
	for other := range c.Members {
		for _, link := range []*TCPProxy{c.links[member][other], c.links[other][member]} {
			apply(link, Requests)
			apply(link, Replies)
		}
	}
}

// Leader is the index of the member that leads: it says so, and with it a majority. It
// waits for one, and for another than those excepted: for the successor, that is,
// since one that was cut off only now is believed to lead until an election. Without
// one in time the test has failed, and 0 lets it go on to its end.
func (c *Cluster) Leader(except ...int) int {
	c.t.Helper()
	deadline := time.Now().Add(limit)
	for time.Now().Before(deadline) {
		if leader, ok := c.leader(); ok && !slices.Contains(except, leader) {
			return leader
		}
		time.Sleep(20 * time.Millisecond) // an election takes some hundred
	}
	c.t.Errorf("no leader within %v", limit)
	return 0
}

// leader is whom a majority, itself included, takes for the leader.
func (c *Cluster) leader() (int, bool) {
	answers := make(chan vote, len(c.Members))
	for i, member := range c.Members {
		go func() {
			s, err := statusOf(member.Addr)
			if err != nil {
				s = status{}
			}
			answers <- vote{from: i, leader: slices.Index(c.ids, s.Leader)}
		}()
	}
	votes := map[int]int{}
	own := map[int]bool{}
	for range c.Members {
		v := <-answers
		votes[v.leader]++
		own[v.leader] = own[v.leader] || v.from == v.leader
	}
	for i := range c.Members {
		if own[i] && votes[i] > len(c.Members)/2 {
			return i, true
		}
	}
	return 0, false
}

// Mend returns when all members that were cut off have found each other: one that was is
// silent for seconds, and with another one cut off too there would be no majority.
func (c *Cluster) Mend() {
	c.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if !slices.ContainsFunc(c.Members, func(m *Process) bool { return peersOf(m.Addr) < len(c.Members)-1 }) {
			return
		}
	}
	c.t.Errorf("not all members are connected within %v", limit)
}

// Lead has a member lead, and returns when it does.
func (c *Cluster) Lead(member int) {
	c.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		leader := c.Leader()
		if leader == member || c.t.Failed() {
			return
		}
		if err := transfer(c.Members[leader].Addr, c.ids[member]); err != nil {
			c.t.Logf("%s: %v", c.Members[leader], err) // it has just lost the lead, for example
		}
	}
	c.t.Errorf("%s doesn't lead within %v", c.Members[member], limit)
}

// vote is what one member says; leader is -1 where it knows none.
type vote struct{ from, leader int }
