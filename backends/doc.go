// Package backends is the contract between flockd and the stores that keep its
// locks. It says what a store does and nothing about how, and imports the
// standard library alone.
//
// # The line
//
// A lock is a line of claims. Whoever asks for a key joins its line with an ID
// that it chose itself and never uses again. The ID names the place while it
// waits and the hold once it is granted, so a lost reply is repaired by asking
// again, and a release names one acquisition and nobody else's. The three modes
// are one walk over the line; see [Fits].
//
// # Rules
//
// Every driver keeps these, and package backendtest checks them, each against a
// store that breaks it:
//
//  1. A nil error from Acquire or Renew means that the hold lasts Lease.TTL less
//     Traits.Slack from any instant before the call. A check that doesn't extend
//     the lease extends it first, in the same call.
//  2. Acquire with an ID that holds returns the same token. An ID that was
//     released is forbidden from then on, so that an acquire which its own
//     release has overtaken can't come back as a ghost.
//  3. Renew never inserts, and never revives a lease that expired, taken or not.
//  4. Errors are the ones of this package. Any other error is an unknown outcome:
//     it may have been applied, or may be yet.
//  5. A place is leased for Request.Place whatever the TTL, and kept by asking
//     again, so that a dead waiter delays the line no longer than that.
//  6. No lock of the store is held across a client's round trip: a frozen client
//     can't stop anyone else's renewal.
//  7. A claim with MinHold is free at the later of its lease's end and its grant
//     plus MinHold, however its holder ends.
//  8. One hand-over wakes one waiter, and costs the same in a line of any length.
//  9. Each record carries a version. A newer one is refused, never misread.
//     Tokens grow even when a key's record was dropped for long disuse.
package backends
