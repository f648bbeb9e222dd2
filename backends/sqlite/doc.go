// Package sqlite keeps the locks of one host in an SQLite file.
//
// Everybody who may contend runs on one kernel, so leases are measured with its
// CLOCK_MONOTONIC, which no one can set (the offset of a time namespace is taken
// off), and another boot means that every holder is gone. A step is one short write
// transaction; nothing is locked between steps. What is not promised: a process that is frozen in the middle of a step, some
// 0.1 ms, keeps the file locked until it goes on or dies. Then nobody can renew,
// and every holder stops its command in time.
package sqlite
