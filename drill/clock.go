package drill

import (
	"time"

	"flockd/backends"
	"flockd/runner"
)

// now reads the drill's clock, which is the same in all its processes.
var now func() time.Duration = runner.ClockOf(backends.Boottime)
