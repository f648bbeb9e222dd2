package servers

import (
	"slices"
	"strings"
	"testing"
)

// Version is an etcd that a test can run against.
type Version int

const (
	Current Version = iota // built from tools/etcd
	Debian                 // the distribution's, an older one
)

func (v Version) String() string { return [...]string{"current", "debian"}[v] }

func (v Version) program(t testing.TB) string {
	t.Helper()
	if v == Debian {
		return "etcd"
	}
	return etcdTool.built(t)
}

// pace lets one member grant leases of 1 s: the shortest is one and a half election
// timeouts, in whole seconds, so 2 s with etcd's own 1000 ms. Three members on two cores
// that six other programs keep busy hold no election at this pace either.
var pace = []string{"--heartbeat-interval", "50", "--election-timeout", "500"}

// Etcd starts an etcd of one member, with its data in its folder, so that a restart
// keeps them. The arguments are etcd's own, come last and so win; {dir} in them stands
// for the server's folder. With --cert-file, clients are served over TLS.
func Etcd(t testing.TB, version Version, args ...string) *Process {
	t.Helper()
	peer := "http://" + address(t)
	m := member{"m0", peer, peer, "m0=" + peer}
	return start(t, address(t), serves, nil, m.command(t, version, args...)...)
}

// member is one of a cluster, perhaps the only one.
type member struct {
	name    string
	listens string // its URL for the other members
	reached string // what they take for that
	cluster string // NAME=URL of all members, as reached
}

// command runs the member; {addr} in it is where clients reach it.
func (m member) command(t testing.TB, version Version, args ...string) []string {
	t.Helper()
	clients := scheme(args) + "://{addr}"
	argv := []string{
		version.program(t), "--name", m.name, "--data-dir", "{dir}/data",
		"--listen-client-urls", clients, "--advertise-client-urls", clients,
		"--listen-peer-urls", m.listens, "--initial-advertise-peer-urls", m.reached, "--initial-cluster", m.cluster,
	}
	return slices.Concat(argv, pace, args)
}

// serves is what etcd prints when it has joined a cluster that has a leader.
const serves = "ready to serve client requests"

func scheme(args []string) string {
	for _, arg := range args {
		if arg == "--cert-file" || strings.HasPrefix(arg, "--cert-file=") {
			return "https"
		}
	}
	return "http"
}
