//go:build !linux

package runner

import (
	"errors"
	"fmt"
	"time"

	"flockd/backends"
)

var started = time.Now()

// clockOf reads Go's monotonic clock, which stands still in suspend where the
// system's does: here leases of remote stores are not safe across a suspend.
func clockOf(backends.Clock) func() time.Duration {
	return func() time.Duration { return time.Since(started) }
}

func startChild(Command, []string) (process, error) {
	return nil, fmt.Errorf("running a command: %w", errors.ErrUnsupported)
}
