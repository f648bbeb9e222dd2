package cmd

import "golang.org/x/sys/unix"

// descriptorFolder lists the open descriptors.
const descriptorFolder = "/proc/self/fd"

// redirect makes the descriptor to another one for what from is.
func redirect(from, to int) error { return unix.Dup3(from, to, 0) }
