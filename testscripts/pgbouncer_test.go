//go:build linux

package testscripts

import (
	"testing"

	"flockd/backends/backendtest/servers"
)

// TestPgBouncer has all go through a pooler: in transaction mode as many clients as like, on
// two sessions of the server.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	for mode, pool := range map[string]string{"transaction": "default_pool_size=2", "session": "default_pool_size=8"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			server := servers.Postgres(t)
			r := served(t, postgres, server)
			pooler := servers.PgBouncer(t, server, mode, pool)
			r.via = postgres.url(pooler.Addr)
			pooled(r, pooler)
		})
	}
}

func pooled(r *rig, pooler *servers.Process) {
	j := r.works("5", "--ttl", "4s")
	heir := r.run(r.via, "k", "--ttl", "3s", "--wait", "1m", "--", "probe", "stamps", "deaf")
	r.waiting(heir)
	last := r.run(r.via, "k", "--wait", "1m", "--", "true")
	r.waiting(last)
	r.run(r.via, "k", "--", "touch", "ran").ends(75)
	pooler.Kill() // connections are lost, and made again
	pooler.Start()
	j.ends(0)
	r.await("stamps")
	r.start("break", "--backend", r.via, "k", "--reason", "test", "--yes", "--wait", "30s").ends(0)
	heir.ends(79).says("test")
	last.ends(0)
	r.free(0)
}
