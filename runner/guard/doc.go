// Package guard is the process that watches over a flockd: where that is killed, or
// frozen past its lease, the guard kills the command's tree in its stead.
//
// The guard is this very program, started once more with a name of its own, and turned
// into a guard while packages are initialised, before the heavy ones are: it costs
// 0.9 MB and is at work after some 2 ms. For that the package may import little: what
// it imports is initialised before it, and with fmt would be most of the program.
//
// It hears of its flockd through a pipe alone. An [Orders] comes with each change, the
// deadline among them; the pipe's end is flockd's death. It holds the pipe, the leaf's
// folder and the terminal, which it gives back, nothing else of ours and nothing of the
// caller's: it has a session of its own, no environment but settings of Go's, and is deaf
// to the signals that people and terminals send. Where it is allowed to it runs before
// others (SCHED_FIFO): on a host with 64 busy processes it would be 100 to 400 ms late
// without.
package guard

import "flockd/runner/tree"

// Name is how the command line of a guard begins; the key follows.
const Name = tree.GuardName

// The descriptors of a guard, beside those of /dev/null.
const (
	ordersFD   = 3
	folderFD   = 4
	terminalFD = 5
)
