// Package sqlite keeps the locks of one host in an SQLite file.
//
// Everybody who may contend runs on one kernel, so leases, places and min-holds are
// measured with its CLOCK_MONOTONIC, which no one can set (the offset of a time namespace
// is taken off), and another boot means that every holder is gone. What outlasts a boot
// goes by the wall clock: the ledger, the period that a run is of, and the floor of the
// tokens.
//
// A step is one short write transaction; nothing is locked between steps. The line is one,
// whatever the modes (line.go), and a step looks at few of its claims, however many wait:
// what it reads grows by a page for each level of the index, what it writes not at all.
// Only to count those who wait is their index read as a whole, some 40 bytes for each. A
// success that is recorded waits for the disk, as do a token that the register admits and
// a new reserve of tokens; nothing else does.
//
// Who waits or watches over a hold sleeps on a word of shared memory (bell_linux.go).
//
// What is not promised:
//
//   - A process that is frozen in the middle of a step, some 0.1 ms, keeps the file
//     locked until it goes on or dies. Then nobody can renew, and every holder stops its
//     command in time.
//   - A full disk takes no renewal, once the log has to grow.
//   - A wall clock that is set back or forward repeats or skips periods; see the docs.
package sqlite
