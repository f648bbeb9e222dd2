package redis

import (
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/backendtest/servers"
	"flockd/backends/mem"
)

func TestConformance(t *testing.T) {
	server := servers.Redis(t)
	url := "redis://" + server.Addr
	h := backendtest.Harness{
		Open: func(t testing.TB) backends.Backend { return open(t, url) },
		TTL:  time.Second,
		// How late a busy machine may be; the store itself counts in microseconds.
		Granularity: 200 * time.Millisecond,
		Has: backendtest.Waits | backendtest.Ledgers | backendtest.Registers | backendtest.SharedHolds | backendtest.SlotHolds |
			backendtest.MinHolds | backendtest.Dates | backendtest.Watches,
		Newer: func(t testing.TB, key string) {
			s := open(t, url)
			lease := acquire(t, s, request(key))
			do(t, s, "HSET", s.to.prefix.part(key, "claims"), lease.ID, `{"v":3,"state":{"of":"another kind"}}`)
		},
	}
	backendtest.Run(t, h)
	t.Run("RegisterStorm", func(t *testing.T) { backendtest.RegisterStorm(t, h) })
	t.Run("Compare", func(t *testing.T) { backendtest.Compare(t, h, mem.New()) })
}
