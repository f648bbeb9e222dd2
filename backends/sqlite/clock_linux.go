//go:build cgo && linux

package sqlite

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// clock is CLOCK_MONOTONIC as the processes of one boot and one time namespace
// see it. It stands still while the host is suspended, and so does every
// contender; nobody can set it.
type clock struct {
	boot   string // the kernel's boot_id
	timens uint64 // inode of the time namespace; 0 where the kernel knows none (before 5.6)
}

func readClock() (clock, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return clock{}, fmt.Errorf("can't tell which boot this is: %w", err)
	}
	c := clock{boot: strings.TrimSpace(string(boot))}
	var ns unix.Stat_t
	if err := unix.Stat("/proc/self/ns/time", &ns); err == nil {
		c.timens = ns.Ino
	}
	return c, nil
}

// now reads the clock in nanoseconds.
func (clock) now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // the clock is there on every Linux
	}
	return t.Nano()
}
