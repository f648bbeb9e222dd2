// Package postgres keeps locks in a schema of a PostgreSQL database, 12 or later, also behind a
// pooler that gives each transaction another session.
//
// A step is a function in the database (*.sql), and one simple query for the client: its
// statements are one transaction, of which the server does nothing before it has all of it, and
// in which it waits for no client. What a session was set to doesn't matter, as that query
// names what it needs for itself: isolation, search path, timeouts, the plan's kind. Nothing is
// kept in a session but LISTEN, where the session is ours alone; behind a pooler waiters look.
//
// What is not promised:
//
//   - A failover to a replica that is behind (synchronous_standby_names is empty) may lose a grant
//     that was acknowledged, and then two hold the key until the first one's next renewal and the
//     time to stop it. Tokens go on growing, as they are never below the server's clock in
//     microseconds, unless the clock of the new primary is behind.
//   - A step of the server's clock ends leases early or late.
//   - A transaction that stays open for hours in the same database makes the steps of busy keys
//     slower and slower, since PostgreSQL keeps for it what they have left behind.
//   - A key that nobody has used for 100 days, and that has no completed runs, is dropped with
//     its last run, when keys are added.
package postgres
