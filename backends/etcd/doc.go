// Package etcd keeps locks in an etcd cluster, by consensus of its members.
//
// All keys are under a prefix, "flockd" unless the URL says otherwise; KEY is the
// lock's key, escaped, and ID the acquisition's:
//
//	PREFIX/line/KEY/ID      a claim, under a lease made from its ID and the Raft term; the smallest create revision is first in line
//	PREFIX/cool/KEY/ID      keeps the key taken until the MinHold of ID has passed, under a lease of its own
//	PREFIX/ended/KEY/ID     says that ID was released, and is forbidden
//	PREFIX/runs/KEY/last    the key's last run
//	PREFIX/runs/KEY/success the key's last run that succeeded
//
// The fencing token is the claim's create revision. Leases are whole seconds, as the
// server counts them: it raises a short one to its minimum, looks twice a
// second for those that ended, and starts all of them anew when its leader
// changes. So a key may become free later than promised, and never sooner. The
// times in the records are by the clocks of the clients that wrote them, for
// etcd shows none of its own; they are for display alone.
//
// Every request is one that may be sent again: claims and leases are named after
// the ID. So a request that fails on one member is asked of another, and
// a connection that kept an answer back is never used again, though it was only the
// caller who gave up.
//
// A member that stood still may yet do what it was asked before, for a client that has
// given up. It comes too late where the client has reached another member since: the
// claim that it was about has moved, and its ID is forbidden or its lease gone. Where nobody
// could be reached, the key may thus be granted to somebody who has left, and
// stays taken for that TTL.
package etcd
