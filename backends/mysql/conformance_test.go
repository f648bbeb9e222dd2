package mysql

import (
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/backendtest/servers"
	"flockd/backends/mem"
)

func TestConformance(t *testing.T) {
	server := servers.MariaDB(t)
	url := urlOf(server)
	h := backendtest.Harness{
		Open: func(t testing.TB) backends.Backend { return open(t, url) },
		TTL:  time.Second,
		// How late a busy machine may be; the store itself counts in microseconds.
		Granularity: 200 * time.Millisecond,
		Has:         backendtest.All,
		Newer: func(t testing.TB, key string) {
			lease := acquire(t, open(t, url), request(key))
			servers.MariaDBSays(t, server, "UPDATE flockd.flockd_claims SET v = 2 WHERE id = '"+lease.ID+"'")
		},
	}
	backendtest.Run(t, h)
	t.Run("RegisterStorm", func(t *testing.T) { backendtest.RegisterStorm(t, h) })
	t.Run("Compare", func(t *testing.T) { backendtest.Compare(t, h, mem.New()) })
}
