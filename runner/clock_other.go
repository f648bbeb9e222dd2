//go:build !linux

package runner

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"flockd/backends"
)

// clockOf reads CLOCK_MONOTONIC, which stands still in suspend on some systems: there
// leases of remote stores are not safe across a suspend.
func clockOf(backends.Clock) func() time.Duration {
	return func() time.Duration {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			panic(fmt.Sprintf("the monotonic clock: %v", err))
		}
		return time.Duration(ts.Nano())
	}
}
