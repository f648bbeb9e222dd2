package runner

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"flockd/backends"
)

// clockOf reads c. Nobody can set either clock, and within one time namespace
// their readings are the same in every process.
func clockOf(c backends.Clock) func() time.Duration {
	id := int32(unix.CLOCK_BOOTTIME)
	if c == backends.Monotonic {
		id = unix.CLOCK_MONOTONIC
	}
	return func() time.Duration {
		var ts unix.Timespec
		if err := unix.ClockGettime(id, &ts); err != nil {
			panic(fmt.Sprintf("clock %d: %v", id, err)) // Linux has both since 2.6.39
		}
		return time.Duration(ts.Nano())
	}
}
