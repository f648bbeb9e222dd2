//go:build linux

package torture

import (
	"context"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flockd/backends/backendtest/servers"
)

// store is what an arena is built on.
type store struct {
	ways   []string  // URLs that lead to it
	direct string    // one that no fault is on
	faults [][]fault // of each list one at a time

	// forgets says that it loses what it has acknowledged. Then two may hold a key,
	// each until its own lease ends at the latest, and what still must hold is that
	// tokens grow.
	forgets bool
}

// rows are the stores that are tortured: what can forget, and what is there in an
// older version too, has less to show. MySQL's waiters ask, so that it takes longer to show
// enough.
var rows = []struct {
	name string
	make func(testing.TB) *store
	part int  // of the time that a storm lasts, one in so many
	long bool // only where time is given
}{
	{"sqlite", sqlite, 1, false},
	{"redis", redis, 1, false},
	{"redis-forgetful", forgetful, 2, false},
	{"etcd", func(t testing.TB) *store { return etcd(t, servers.Current) }, 1, false},
	{"etcd-debian", debian, 1, true},
	{"postgres", postgres, 2, false},
	{"mysql", mysql, 1, true},
}

func sqlite(t testing.TB) *store {
	file := filepath.Join(t.TempDir(), "flockd.db")
	url := "sqlite://" + file
	return &store{ways: []string{url}, direct: url, faults: [][]fault{fileFaults(file)}}
}

// redis forgets nothing that it acknowledged.
func redis(t testing.TB) *store {
	r := servers.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	one, two := servers.Proxy(t, r.Addr), servers.Proxy(t, r.Addr)
	return &store{
		direct: redisURL(r.Addr),
		ways:   []string{redisURL(r.Addr), redisURL(one.Addr), redisURL(two.Addr)},
		faults: [][]fault{serverFaults([]*servers.Process{r}), netFaults([]*servers.TCPProxy{one, two}, match)},
	}
}

// forgetful is a Redis that keeps nothing over a restart, and is wiped now and then.
func forgetful(t testing.TB) *store {
	r := servers.Redis(t)
	url := redisURL(r.Addr)
	wipe := fault{"flush", func(context.Context, *rand.Rand) bool { return flush(r.Addr) == nil }}
	return &store{
		ways: []string{url}, direct: url, forgets: true,
		faults: [][]fault{append(serverFaults([]*servers.Process{r}), wipe)},
	}
}

// match is in every request of flockd: the prefix of all names.
var match = []byte("flockd")

func redisURL(addr string) string { return "redis://" + addr }

// flush has a Redis lose everything.
func flush(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("FLUSHALL\r\n")); err != nil {
		return err
	}
	conn.SetReadDeadline(time.Now().Add(time.Second))
	_, err = conn.Read(make([]byte, len("+OK\r\n")))
	return err
}

// postgres is a PostgreSQL, and a pooler before it that has fewer sessions than clients.
func postgres(t testing.TB) *store {
	p := servers.Postgres(t)
	one, two := servers.Proxy(t, p.Addr), servers.Proxy(t, p.Addr)
	pooler := servers.PgBouncer(t, p, "transaction", "default_pool_size=4")
	return &store{
		direct: postgresURL(p.Addr),
		ways:   []string{postgresURL(p.Addr), postgresURL(one.Addr), postgresURL(one.Addr, two.Addr), postgresURL(pooler.Addr)},
		faults: [][]fault{append(serverFaults([]*servers.Process{p}), sessionFaults(p.Addr)...), netFaults([]*servers.TCPProxy{one, two}, match)},
	}
}

func postgresURL(addrs ...string) string {
	return "postgres://" + servers.PostgresUser + ":" + servers.PostgresPassword + "@" + strings.Join(addrs, ",") + "/" + servers.PostgresDatabase
}

func mysql(t testing.TB) *store {
	p := servers.MariaDB(t)
	one, two := servers.Proxy(t, p.Addr), servers.Proxy(t, p.Addr)
	return &store{
		direct: mysqlURL(p.Addr),
		ways:   []string{mysqlURL(p.Addr), mysqlURL(one.Addr), mysqlURL(one.Addr, two.Addr)},
		faults: [][]fault{append(serverFaults([]*servers.Process{p}), tableFaults(p.Addr)...), netFaults([]*servers.TCPProxy{one, two}, match)},
	}
}

func mysqlURL(addrs ...string) string {
	return "mysql://" + servers.MariaDBUser + ":" + servers.MariaDBPassword + "@" + strings.Join(addrs, ",") + "/" + servers.MariaDBDatabase
}

// etcd is a cluster, of whose members one at a time is harmed.
func etcd(t testing.TB, version servers.Version) *store {
	c := servers.ClusterOf(t, version, 3)
	addrs := c.Endpoints()
	one, two := servers.Proxy(t, addrs[0]), servers.Proxy(t, addrs[1])
	isolate := fault{"isolate member", func(ctx context.Context, r *rand.Rand) bool {
		member := r.IntN(len(addrs))
		c.Isolate(member)
		lasts(ctx, between(r, 50*time.Millisecond, 4*time.Second))
		c.Heal(member)
		return true
	}}
	return &store{
		direct: etcdURL(addrs...),
		ways:   []string{etcdURL(addrs...), etcdURL(addrs[2]), etcdURL(one.Addr), etcdURL(one.Addr, two.Addr)},
		faults: [][]fault{append(serverFaults(c.Members), isolate), netFaults([]*servers.TCPProxy{one, two}, match)},
	}
}

// debian is an etcd before 3.4.31, of which a member that led once revokes leases that
// are in use, as newer ones do after they stood still, and before 3.4.38, which says that
// it renewed a lease that it revokes. flockd moves holds under new leases after an
// election, but not at once, and warns. So it isn't judged as a lock. Seven minutes of
// storms that did judge it showed nothing, but neither did three without that move, so
// they prove little.
func debian(t testing.TB) *store {
	s := etcd(t, servers.Debian)
	s.forgets = true
	return s
}

func etcdURL(addrs ...string) string { return "etcd://" + strings.Join(addrs, ",") }
