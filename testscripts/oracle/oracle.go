//go:build linux

// Package oracle tells whether holders of a key are together who must not be. It asks the
// kernel alone: each has locks on bytes of one file for as long as the process that took
// them lives, or one that inherited the file.
package oracle

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The bytes of the file. A holder locks its own, and then looks whether somebody has one
// that it mustn't be beside; so of two that meet at least one sees the other.
const (
	shared   = 0       // of all shared holders, to read
	families = 1 << 10 // plus N: of all holders of one of N slots, to read
	places   = 1 << 20 // plus the slot: of its holder, to write
	end      = 1 << 30
)

// Take locks what a holder of mode ("", "shared" or "slots=N") has, until the file is
// closed. Its error says who must not be there.
func Take(name, mode, slot string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := take(f, mode, slot); err != nil {
		return f, fmt.Errorf("%s %s: %w", mode, slot, err)
	}
	return f, nil
}

func take(f *os.File, mode, slot string) error {
	count, slots := strings.CutPrefix(mode, "slots=")
	switch {
	case slots:
		return takeSlot(f, count, slot)
	case mode == "shared":
		return errors.Join(lock(f, unix.F_RDLCK, shared, 1), nobody(f, shared+1, end))
	}
	return lock(f, unix.F_WRLCK, 0, end)
}

func takeSlot(f *os.File, count, slot string) error {
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		return err
	}
	number, err := strconv.ParseInt(slot, 10, 64)
	if err != nil || number < 0 || number >= n {
		return fmt.Errorf("slot %q of %d", slot, n)
	}
	return errors.Join(
		lock(f, unix.F_RDLCK, families+n, 1), lock(f, unix.F_WRLCK, places+number, 1),
		nobody(f, shared, families+n), nobody(f, families+n+1, places),
	)
}

// lock locks bytes for as long as anybody has this file open.
func lock(f *os.File, kind int16, from, length int64) error {
	l := unix.Flock_t{Type: kind, Start: from, Len: length}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l); err != nil {
		return fmt.Errorf("bytes from %d are somebody's: %w", from, err)
	}
	return nil
}

// nobody wants no lock on bytes.
func nobody(f *os.File, from, to int64) error {
	l, err := first(f, from, to)
	if l != nil {
		return fmt.Errorf("somebody has byte %d", l.Start)
	}
	return err
}

// first is a lock that somebody else has on bytes, nil if nobody has one.
func first(f *os.File, from, to int64) (*unix.Flock_t, error) {
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: from, Len: to - from}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l); err != nil {
		return nil, err
	}
	if l.Type == unix.F_UNLCK {
		return nil, nil
	}
	return &l, nil
}
