//go:build linux

package testscripts

import (
	"testing"

	"flockd/backends/backendtest/servers"
)

// A Redis that keeps nothing forgets its holds when it starts again: the holder stops
// its command at its next renewal, and tokens go on growing.
func TestRedisForgets(t *testing.T) {
	t.Parallel()
	r := served(t, redis, servers.Redis(t))
	before := r.token()
	j := r.probes("stamps", "--ttl", "3s")
	r.server.Kill()
	r.server.Start()
	j.ends(79).says("lost the lock on k")
	if after := r.token(); after <= before {
		t.Errorf("token %d after %d", after, before)
	}
}
