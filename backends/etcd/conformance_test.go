package etcd

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
	t.Run("current", func(t *testing.T) { t.Parallel(); conforms(t, servers.Current) })
	t.Run("debian-3.4", func(t *testing.T) { t.Parallel(); conforms(t, servers.Debian) })
}

func conforms(t *testing.T, version servers.Version) {
	server := servers.Etcd(t, version)
	h := backendtest.Harness{
		Open: func(t testing.TB) backends.Backend { return open(t, "etcd://"+server.Addr) },
		TTL:  time.Second, // what the server keeps exactly, with the elections that the harness has set
		// The server looks every 500 ms for leases that ended, the lease of a MinHold is up
		// to a second longer, and a busy machine may be late by as much.
		Granularity: 2500 * time.Millisecond,
		Has:         backendtest.All &^ backendtest.Dates,
		Newer: func(t testing.TB, key string) {
			s := open(t, "etcd://"+server.Addr)
			put(t, s, s.names(key).line+backends.NewID(), fmt.Sprintf(`{"v": %d}`, backends.RecordVersion+1))
		},
	}
	backendtest.Run(t, h)
	if version == servers.Current { // some seconds, for each answer is a step of the cluster
		t.Run("RegisterStorm", func(t *testing.T) { backendtest.RegisterStorm(t, h) })
	}
	t.Run("Compare", func(t *testing.T) { backendtest.Compare(t, h, mem.New()) })
}
