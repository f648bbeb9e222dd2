//go:build linux

package failover

import (
	"os/exec"
	"strings"
	"testing"

	"flockd/backends/backendtest/servers"
)

// TestPromoted: a primary that dies, and whose replica takes its place before the lease ends,
// costs nobody the lead. The next change is as ever. To promote takes a second or two, and a quarter
// of a lease is ridden out whenever that begins.
func TestPromoted(t *testing.T) {
	t.Parallel()
	var s *succession
	l := newLab(t, store{name: "redis", start: func(l *lab) string {
		s = newSuccession(l)
		return "redis://" + s.address + "?min-replicas=1"
	}}, 3*ttl)
	leader := l.settled()
	s.promote()
	l.renewed(leader)
	if now := l.present(); now != leader {
		l.Errorf("%s led, and now %s does", leader.host, now.host)
	}
	l.inflict(cutOff)
	l.ordered()
}

// succession is a Redis whose address moves to the first of two replicas, where it dies.
type succession struct {
	*lab
	address string
	hosts   []*host
	servers []*servers.Process
}

func newSuccession(l *lab) *succession {
	s := &succession{lab: l}
	for _, name := range []string{"db1", "db2", "db3"} {
		h := l.net.host(name)
		s.hosts = append(s.hosts, h)
		s.servers = append(s.servers, h.Redis(l, "--bind", "0.0.0.0", "--port", "6379")) // as the address is to be
	}
	s.address = s.hosts[0].IP
	s.follows(1, 0)
	s.follows(2, 0)
	return s
}

// tells has one server do something.
func (s *succession) tells(server int, command ...string) string {
	s.Helper()
	cmd := exec.Command("redis-cli", append([]string{"-h", s.hosts[server].IP}, command...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// follows returns when one server has all that another has.
func (s *succession) follows(replica, primary int) {
	s.Helper()
	s.tells(replica, "REPLICAOF", s.hosts[primary].IP, "6379")
	s.until("a replica that follows", func() bool { return strings.Contains(s.tells(replica, "INFO", "replication"), "master_link_status:up") })
}

// promote is what whoever watches over a Redis does when the primary has died.
func (s *succession) promote() {
	s.Helper()
	s.servers[0].Kill()
	s.tells(1, "REPLICAOF", "NO", "ONE")
	s.follows(2, 1)
	must(s.T, s.hosts[0].ip("addr del "+s.address+"/24 dev eth0"))
	must(s.T, s.hosts[1].ip("addr add "+s.address+"/24 dev eth0"))
	for _, h := range s.lab.hosts { // as a gratuitous ARP would tell them
		must(s.T, h.ip("neigh flush dev eth0"))
	}
}
