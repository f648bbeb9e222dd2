package cmd

import "golang.org/x/sys/unix"

// redirect makes the descriptor to another one for what from is.
func redirect(from, to int) error { return unix.Dup3(from, to, 0) }
