// Package redis keeps locks in one Redis (6 or later, Valkey too), also behind a
// proxy that knows no publish and subscribe and wants every key named.
//
// Each operation is one script, and so one atomic step; the scripts (*.lua) are the
// protocol, and common.lua says what is kept where. All keys of a lock have one hash
// tag. The server's clock alone decides what has expired, and which period a run is of.
//
// The line is one, whatever the modes. An index beside it (line.lua) tells a claim
// whether those in front are all of its family, and a release whose turn has come, so
// that the work doesn't grow with those who wait. It can be made anew from the line, and
// is where it doesn't agree with that.
//
// What is not promised:
//
//   - A failover may lose a grant that was acknowledged, and then two hold the key:
//     until the first one's next renewal and the time to stop it, or, with a primary
//     that is cut off from its replicas but not from the holder, for as long as the cut
//     lasts. ?min-replicas=N narrows that: a grant, a renewal, a completed run or an
//     admitted token counts only once N replicas have it. Tokens go on growing in both
//     cases, as they are never below the server's clock in microseconds, unless the
//     clock of the new primary is behind.
//   - A token that was admitted may be lost by it as well: then a smaller one is admitted
//     until a larger one comes.
//   - A step of the server's clock ends leases early or late.
//   - A store that evicts (any maxmemory-policy but noeviction) may drop a hold. Its
//     holder finds that within 15 s.
//   - The record of a key that was last used by a run that crashed, or that had a
//     min-hold, stays until the key is used again; others are forgotten 100 days
//     after the last claim has left. Completed runs have no TTL: those whose time is
//     over stay until another run of the key is completed.
//   - A primary that becomes a writable replica (replica-read-only no) while we are
//     connected isn't noticed; one that is read-only is, with the first write.
package redis
