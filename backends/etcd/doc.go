// Package etcd keeps locks in an etcd cluster, by consensus of its members.
//
// All keys are under a prefix, "flockd" unless the URL says otherwise; KEY is the
// lock's key, escaped, and ID the acquisition's:
//
//	PREFIX/line/KEY/ID      a claim, under a lease made from its ID and the Raft term; the smallest create revision is first in line
//	PREFIX/line/KEY/s-ID    a shared one
//	PREFIX/line/KEY/n-ID-N  one for one of N slots
//	PREFIX/held/KEY/ID      the hold of a claim, with a copy of its record, made by the grant and under its lease; with slots, the slot's number in place of ID
//	PREFIX/cool/KEY/…       keeps the key taken until the MinHold of a claim has passed, under a lease of its own; named as in line
//	PREFIX/order/KEY/…      counts a waiter, in the order in which they came but for those who came in the same moment
//	PREFIX/ended/KEY/ID     says that ID is forbidden: it was released, or was removed or asked to leave the line, and by whom
//	PREFIX/done/KEY/RUN     a run that has succeeded, under a lease as long as it is kept, or none
//	PREFIX/runs/KEY/last    the key's last run
//	PREFIX/runs/KEY/success the key's last run that succeeded
//	PREFIX/fence/RESOURCE   the highest token that the resource, escaped as a key is, has seen
//
// The fencing token is the revision of the grant, which is the hold's create revision: the second
// in line may be granted the key before the first.
//
// Whether a claim fits is read first, and its grant is a transaction that compares its own claim:
// nobody gets in front of a place, and whoever may hold behind it has counted it, so that what
// fits goes on to fit. A newcomer has no place, and compares that nobody has come in its way. A
// notice changes the claim, so that no grant that was on its way gets past it.
//
// Leases are whole seconds, as the server counts them: it raises a short one to its minimum, looks
// twice a second for those that ended, and starts all of them anew when its leader
// changes. So a key may become free, or a run forgotten, later than promised, and never sooner. The
// times in the records are by the clocks of the clients that wrote them, for etcd shows none of its
// own; they are for display, but for the period that a run is for.
//
// Every request is one that may be sent again: claims and leases are named after
// the ID. So a request that fails on one member is asked of another, and
// a connection that kept an answer back isn't used again, though it was only the
// caller who gave up. It is where there is one member alone, which is merely slow: something
// else has come from it meanwhile. A renewal is never sent where the one before had no answer.
//
// A member that stood still may yet do what it was asked before, for a client that has
// given up. It comes too late where the client has reached another member since: the
// claim that it was about has moved, and its ID is forbidden or its lease gone. Where nobody
// could be reached, the key may thus be granted to somebody who has left, and
// stays taken for that TTL.
package etcd
