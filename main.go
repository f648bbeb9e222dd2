// The runtime would look for a limit of its processors among the cgroups, at each
// start and then time and again: a tenth of a millisecond for a program that waits.

//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Flockd runs a command under a lock.
package main

import (
	"embed"
	"os"

	"flockd/cmd"
)

// files are the man pages and completions, for flockd man and flockd completion.
//
//go:embed man all:completions
var files embed.FS

func main() { os.Exit(cmd.Main(cmd.System(), files)) }
