// Package tree reaches the processes of a command: everything that started from it,
// whatever it did to get away. It signals nobody else.
//
// Two things hold a tree together on Linux. A leaf of the cgroup v2 hierarchy, where
// one may be made: the command starts inside it, only who moves itself leaves it, and
// the kernel kills and counts it as a whole. And marks, which every process inherits: a soft
// RLIMIT_LOCKS with a random value, which the kernel has ignored since 2.4.25 but hands
// on through env -i, setsid and setuid; and the hold's ID in the environment, which
// nested holds add to and don't replace. With them go the command's process group, and
// descent: who has a parent in the tree, or without a leaf, who lost it and became our
// child.
//
// A process is signalled through a pidfd only, after it was found of the tree while
// the pidfd was open, or as a group whose leader isn't reaped. So a number that was
// used again stands for nobody; only where there are no pidfds (before Linux 5.3) the
// number has to do, right after a look at it. A process whose first thread has ended looks like a
// zombie in /proc; that is asked of the pidfd as well.
//
// What is started beside the command is of its tree, and has a smaller one of its own, which can
// be killed alone: a cgroup below the leaf, and a mark that differs from the command's by one
// bit, so that the whole tree knows it as well. Processes aside belong to no tree, are never taken
// for a left-over, and have a mark of their own, by which what they leave to us is known.
//
// Elsewhere, and without /proc, there is the process group alone.
//
// The package is part of the guard, which is at work before other packages are
// initialised: it imports little. Its methods are not for concurrent use, but for
// those of [Family].
package tree

import "strconv"

// Identity is by what a tree is known in any process. The zero Identity is nobody.
type Identity struct {
	ID     string // in the environment of each process; empty: none
	Limit  uint64 // the soft RLIMIT_LOCKS of each process; 0: none
	Leader int    // the first process's number; 0: not started
	Born   uint64 // the first process's start, in clock ticks since boot: no other is older; 0: not known
	Leads  bool   // the first process leads a group of its own
}

// GuardName is how a guard's command line begins. A guard is never killed for its
// descent: it has to outlive its flockd.
const GuardName = "flockd-guard"

// Process is one of a tree, for people.
type Process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"` // as the kernel shows it: 15 bytes at most
}

func (p Process) String() string { return p.Name + " (" + strconv.Itoa(p.PID) + ")" }
