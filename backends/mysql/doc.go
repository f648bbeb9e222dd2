// Package mysql keeps locks in a database of MySQL or MariaDB.
//
// Each step is one CALL of a stored procedure, and so one trip; the procedures (*.sql) are the
// protocol, and schema.sql says what is kept.
// Nothing that a session or a server has set matters: a procedure has the sql_mode and the
// character set that it was created with, and names its isolation, its time zone and how
// long it waits for a lock itself. So it works behind a proxy that drops what a session has
// set, and behind one that sends reads elsewhere, for a CALL is none.
//
// The lock of a key's row is held within the procedure alone. The line is read without
// locks under it, so that no renewal waits for those who ask; a renewal in flight is
// waited for only by who finds that claim expired.
//
// What is not promised:
//
//   - A failover to a replica that isn't synchronous may lose a grant that was acknowledged.
//     Tokens go on growing, as they are never below the server's clock in microseconds,
//     unless the clock of the new primary is behind.
//   - A step of the server's clock ends leases early or late.
//   - A server that is told to lose what it acknowledged (innodb_flush_log_at_trx_commit other
//     than 1, sync_binlog other than 1 with a replica) may do so when it crashes.
package mysql
