package runner

import (
	"time"

	"flockd/backends"
)

// tick is how soon a host that wakes from suspend looks at the clock: Go's
// timers stand still in suspend.
const tick = time.Second

// tickOf is the longest sleep with leases on c: with Monotonic, the timers stand
// still when the leases do.
func tickOf(c backends.Clock) time.Duration {
	if c == backends.Monotonic {
		return never
	}
	return tick
}

// ClockOf reads a local clock that nobody can set. The readings of all processes of a host
// compare, within one time namespace.
func ClockOf(c backends.Clock) func() time.Duration { return clockOf(c) }
