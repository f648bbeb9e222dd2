//go:build !linux

package cmd

import "golang.org/x/sys/unix"

// descriptorFolder lists the open descriptors; on FreeBSD, where fdescfs is mounted.
const descriptorFolder = "/dev/fd"

// redirect makes the descriptor to another one for what from is.
func redirect(from, to int) error { return unix.Dup2(from, to) }

// unstoppable is not to be had here: a terminal that is set so stops a flockd that writes
// from the background.
func unstoppable() {}
