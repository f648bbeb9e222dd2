package mysql

import (
	"fmt"
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
			// By its primary key, which locks this row alone: others are at theirs.
			servers.MariaDBSays(t, server, fmt.Sprintf("UPDATE flockd.flockd_claims SET v = 2 WHERE k = X'%x' AND id = '%s'", key, lease.ID))
		},
	}
	backendtest.Run(t, h)
	t.Run("RegisterStorm", func(t *testing.T) { backendtest.RegisterStorm(t, h) })
	t.Run("Compare", func(t *testing.T) { backendtest.Compare(t, h, mem.New()) })
}
