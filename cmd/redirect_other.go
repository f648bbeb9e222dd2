//go:build !linux

package cmd

import "golang.org/x/sys/unix"

// descriptorFolder lists the open descriptors; on FreeBSD, where fdescfs is mounted.
const descriptorFolder = "/dev/fd"

// redirect makes the descriptor to another one for what from is.
func redirect(from, to int) error { return unix.Dup2(from, to) }
