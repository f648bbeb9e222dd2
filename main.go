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
