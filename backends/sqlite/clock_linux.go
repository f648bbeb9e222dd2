//go:build cgo && linux

package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"flockd/backends"
	"flockd/backends/host"
)

// clock is the host's CLOCK_MONOTONIC, as its first time namespace sees it. It
// stands still while the host is suspended, and so does every contender; nobody can
// set it. Another boot has another clock.
type clock struct {
	boot   string // the kernel's boot_id
	offset int64  // of our time namespace's CLOCK_MONOTONIC from the host's, in ns
}

const bootID = "/proc/sys/kernel/random/boot_id"

func readClock() (clock, error) {
	var system unix.Statfs_t
	if err := unix.Statfs(bootID, &system); err == nil && system.Type != unix.PROC_SUPER_MAGIC || host.Mounted(bootID) {
		return clock{}, backends.Refuse("in a container that is given a boot_id of its own, a lock in a file can't be relied on: run flockd outside of it",
			"%s is not the kernel's own here, so it doesn't tell whether a holder is gone with another boot", bootID)
	}
	boot, err := os.ReadFile(bootID)
	if err != nil {
		return clock{}, backends.Refuse("", "can't tell which boot this is: %w", err)
	}
	offset, err := offsetHere()
	return clock{strings.TrimSpace(string(boot)), offset}, err
}

// now reads the clock in nanoseconds.
func (c clock) now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // the clock is there on every Linux
	}
	return t.Nano() - c.offset
}

// firstNamespace is the inode of the time namespace that the host starts with
// (PROC_TIME_INIT_INO of the kernel).
const firstNamespace = 0xeffffffa

// offsetHere is the offset of our time namespace, which a kernel before 5.6 has not.
func offsetHere() (int64, error) {
	var ours, next unix.Stat_t
	err := unix.Stat("/proc/self/ns/time", &ours)
	if errors.Is(err, fs.ErrNotExist) || err == nil && ours.Ino == firstNamespace {
		return 0, nil
	}
	// The offsets that can be read are those of our children's namespace.
	if err := errors.Join(err, unix.Stat("/proc/self/ns/time_for_children", &next)); err != nil || next.Ino != ours.Ino {
		return 0, backends.Refuse("", "the offset of this time namespace can't be told: %w", err)
	}
	text, err := os.ReadFile("/proc/self/timens_offsets")
	if err != nil {
		return 0, backends.Refuse("", "the offset of this time namespace can't be told: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		var name string
		var sec, ns int64
		if n, _ := fmt.Sscan(line, &name, &sec, &ns); n == 3 && name == "monotonic" {
			return sec*1e9 + ns, nil
		}
	}
	return 0, backends.Refuse("", "the offset of this time namespace can't be told")
}
