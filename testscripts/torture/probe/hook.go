//go:build linux

package main

import (
	"cmp"
	"os"
	"path/filepath"
	"time"

	"flockd/testscripts/oracle"
	"flockd/testscripts/torture/trace"
)

// hook is what a candidate runs at the begin and at the end of a term. No two of one
// candidate may be at it, which a lock of the kernel tells.
func hook(folder, what, candidate string, work time.Duration) {
	f, err := oracle.Take(filepath.Join(folder, "hook."+candidate), "", "")
	if err != nil {
		appendLine(folder, "violations", trace.Now(), "hook", what, "of candidate", candidate, "beside another one:", err)
		os.Exit(3)
	}
	tell := func(event string) {
		appendLine(folder, "hooks", trace.Now(), what, event, candidate, os.Getenv("FLOCKD_TOKEN"), cmp.Or(os.Getenv("FLOCKD_DEPOSED"), "-"))
	}
	tell("begin")
	time.Sleep(work)
	tell("end")
	check(f.Close())
}
