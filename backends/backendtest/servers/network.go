package servers

import (
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// Host is where a server runs: a host of a network that a test has made. The zero value is
// this machine, whose servers nobody else reaches.
type Host struct {
	IP string // no other process listens there

	// Start starts a process there that dies with us: see StartToDieWithUs.
	Start func(*exec.Cmd) error
}

// Redis is a Redis on the host: see there.
func (h Host) Redis(t testing.TB, args ...string) *Process {
	t.Helper()
	return redis(t, h, nil, append([]string{"--protected-mode", "no"}, args...)...)
}

// MariaDB is a MariaDB on the host: see there.
func (h Host) MariaDB(t testing.TB, args ...string) *Process {
	t.Helper()
	return mariaDB(t, h, nil, args...)
}

// Postgres is a PostgreSQL on the host: see there. The user postgres can't come from another one.
func (h Host) Postgres(t testing.TB, settings ...string) *Process {
	t.Helper()
	return newPostgres(t, h, settings...).serve()
}

// EtcdOn starts a cluster of current etcds, a member on each host, and returns when it has a
// leader. It is the hosts' network that cuts its members off, not Isolate. The arguments are
// each member's, as with Etcd.
func EtcdOn(t testing.TB, hosts []Host, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	var members []member
	var names []string
	for i, host := range hosts {
		peer := "http://" + host.address(t)
		members = append(members, member{name: fmt.Sprint("m", i), listens: peer, reached: peer})
		names = append(names, fmt.Sprintf("m%d=%s", i, peer))
	}
	for i, m := range members {
		m.cluster = strings.Join(names, ",")
		c.Members = append(c.Members, hosts[i].prepare(t, serves, nil, m.command(t, Current, args...)...))
	}
	c.start()
	return c
}

// prepare is a server that wasn't started yet.
func (h Host) prepare(t testing.TB, ready string, env []string, argv ...string) *Process {
	t.Helper()
	p := prepare(t, h.address(t), ready, env, argv...)
	p.host = h
	return p
}

func (h Host) ip() string {
	if h.IP == "" {
		return "127.0.0.1"
	}
	return h.IP
}

func (h Host) start(cmd *exec.Cmd) error {
	if h.Start == nil {
		return StartToDieWithUs(cmd)
	}
	return h.Start(cmd)
}

// ports counts those given on hosts of a test's own.
var ports atomic.Int64

// address is one that no other server of the host has.
func (h Host) address(t testing.TB) string {
	t.Helper()
	if h.IP == "" {
		return address(t)
	}
	return net.JoinHostPort(h.IP, strconv.Itoa(firstPort+int(ports.Add(1))))
}
