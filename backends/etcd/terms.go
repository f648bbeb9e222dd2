package etcd

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// purpose is what an ID has a lease for.
type purpose string

const (
	forPlace purpose = "place"
	forHold  purpose = "hold"
	forCool  purpose = "cool"
	forEnd   purpose = "ended"
	forKeep  purpose = "done"
)

// term is a lease and how long it is asked to last. Its ID is made from what it is
// for, so that asking again after a lost reply meets the same lease, and so does another
// client that has heard of the same elections.
type term struct {
	id      clientv3.LeaseID
	seconds int64
}

func (t term) lasts() time.Duration { return time.Duration(t.seconds) * time.Second }

// termFor is the lease of at least d, in whole seconds, that id has for that purpose.
func termFor(id string, p purpose, d time.Duration) term {
	seconds := int64(max(1, (d+time.Second-1)/time.Second))
	return term{leaseID(id, string(p), seconds), seconds}
}

// termOf is the lease of a claim that waits or holds. Its ID is also made from the Raft term
// that the members are in, as far as this client has heard.
//
// A leader that stood still for longer than a lease, while another was elected
// and renewed it, finds it ended when it goes on, and revokes it before it has learnt
// that it leads no more; the others do as it says. A lease that was
// made after the election is none that it knows. So whoever hears of a new Raft term moves
// its claim under such a lease before it takes it for extended.
//
// And one that this client has asked to revoke, not knowing whether that got there, is
// not used again.
func (s *Store) termOf(id string, p purpose, d time.Duration) term {
	return termFor(id, purpose(fmt.Sprintf("%s %d %d", p, s.cluster.raft.Load(), s.memory.recall(id).disowned)), d)
}

// runsKept is how long a last-run record is kept: 100 days, and the week in
// which all runs share one lease.
const runsKept = 107 * 24 * time.Hour

// runsTerm is the lease of the runs that end in the week of now. It is shared, so
// that a run costs no lease of its own, and keys that nobody uses go by themselves.
func runsTerm(prefix string, now time.Time) term {
	year, week := now.UTC().ISOWeek()
	seconds := int64(runsKept / time.Second)
	return term{leaseID(prefix, fmt.Sprintf("runs %d-%d", year, week), seconds), seconds}
}

// leaseID is a hash, positive as etcd's IDs are, and never 0, which to etcd is no lease.
func leaseID(of, purpose string, seconds int64) clientv3.LeaseID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", of, purpose, seconds))
	return clientv3.LeaseID(binary.BigEndian.Uint64(sum[:])>>1 | 1)
}
