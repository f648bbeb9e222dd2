// Package stored is what the drivers for SQL servers have in common: a [Store] whose every
// step is a function that is stored in the database.
//
// A step is one request of one message. The whole of it is decided on the server, under the
// lock of the key's row, so that no lock is held across a client's round trip: a client that
// is frozen or cut off in the midst of a request has sent all of it or nothing that counts.
// A driver brings the connection (a [Server]) and the tables and functions in its server's
// language, which keep to this:
//
//  1. What reads more than one row locks the key's row first, then reads the clock, then
//     drops this key's claims that have ended, which waits for a renewal in flight, and only
//     then, in later statements, reads the line. It names its isolation, READ COMMITTED.
//  2. A renewal changes its own row alone, and only while the lease lasts.
//  3. Nothing that is sent or answered is other than ASCII, so that no encoding of a database
//     or a session matters: keys and runs are binary, texts are JSON with escapes.
//  4. Whose turn has come is marked as called, in the same transaction. Waiters look at the
//     mark of their own claim, or are notified by it.
//
// Instants are microseconds since 1970 by the server's clock, and 0 is none. Durations are
// microseconds. An answer is rows of one column, each a JSON object: what the step came to,
// then what it lists.
package stored
