//go:build linux

// Package failover has the leader of an election fail in every way that a host can, and
// measures how long nobody leads.
//
// Three hosts campaign for one key, and a store's servers are on the same or on others. A host
// is a thread of the test with a network name space of its own: what it starts is in it, and
// dies with it. All of them are plugged into a bridge in another name space, the test's, which
// goes with the test: the network of the machine isn't touched. The hosts share a folder, in
// which the leader's command takes a lock of the kernel, writes down when it lives, and writes
// to two files under its term, of which one is fenced.
//
// The tests hold the changes to their order, and to bounds that a busy machine keeps. With
// FLOCKD_FAILOVER=N, as make failover has it, each fault is inflicted on each store N times,
// the medians must keep what docs/failover.md says, and a table is printed.
package failover
