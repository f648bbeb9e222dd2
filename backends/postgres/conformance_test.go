package postgres

import (
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/backendtest/servers"
	"flockd/backends/mem"
)

func TestConformance(t *testing.T) {
	server := servers.Postgres(t, "fsync=off", "max_connections=300")
	base := socketURL(server)
	h := backendtest.Harness{
		Open: func(t testing.TB) backends.Backend { return open(t, base) },
		TTL:  time.Second,
		// How late a busy machine may be; the store itself counts in microseconds.
		Granularity: 200 * time.Millisecond,
		Has:         backendtest.All,
		Newer: func(t testing.TB, key string) {
			acquire(t, open(t, base), request(key))
			sql(t, server, servers.PostgresDatabase, fmt.Sprintf(`UPDATE flockd.claims SET v = %d WHERE key = convert_to(%s, 'UTF8')`, backends.RecordVersion+1, literal(key)))
		},
	}
	backendtest.Run(t, h)
	t.Run("RegisterStorm", func(t *testing.T) { backendtest.RegisterStorm(t, h) })
	t.Run("Compare", func(t *testing.T) { backendtest.Compare(t, h, mem.New()) })
}

// socketURL is for who owns the database, by the server's socket: a connection costs less, and
// the suite makes some hundreds.
func socketURL(server *servers.Process) string {
	_, port, _ := net.SplitHostPort(server.Addr)
	return "postgres://" + servers.PostgresUser + "@" + url.PathEscape(server.Dir) + ":" + port + "/" + servers.PostgresDatabase
}
