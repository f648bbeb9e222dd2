//go:build linux

package testscripts

import (
	"slices"
	"testing"
	"time"
)

// TestKilledFreesTheKey: when flockd is killed, whoever waits gets the key as soon as the
// command is dead, and long before the lease ends.
func TestKilledFreesTheKey(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		r := newFolder(t)
		r.direct = "sqlite://" + r.dir + "/flockd.db"
		r.via = r.direct
		killedFreesTheKey(r)
	})
	for _, s := range []store{redis, etcd, oldEtcd, postgres} {
		t.Run(s.name, func(t *testing.T) { killedFreesTheKey(newRig(t, s)) })
	}
}

func killedFreesTheKey(r *rig) {
	var after []time.Duration
	for range 5 {
		holder := r.probes("stamps", "--ttl", "1m")
		next := r.run(r.direct, "k", "--wait", "1m", "--", "true")
		r.waiting(next)
		killed := time.Now()
		holder.cmd.Process.Kill()
		next.ends(0)
		after = append(after, time.Since(killed))
		holder.ends(137)
		r.forget("stamps")
	}
	r.Logf("granted and ended after %v", after)
	if slices.Sort(after); after[len(after)/2] > time.Second || after[len(after)-1] > 5*time.Second {
		r.Error("that is too late")
	}
}
