//go:build !linux

package servers

import (
	"errors"
	"os/exec"
	"syscall"
)

var errLinux = errors.New("the servers for tests run on Linux only")

// StartToDieWithUs starts nothing here.
func StartToDieWithUs(*exec.Cmd) error { return errLinux }

func awaitStop(int) error                     { return errLinux }
func freezeChildren(int) error                { return errLinux }
func thawChildren(int)                        {}
func (a account) alone() *syscall.SysProcAttr { return nil }
func reserve(int) (release func(), err error) { return nil, errLinux }
