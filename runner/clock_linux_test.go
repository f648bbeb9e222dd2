package runner

import (
	"testing"
	"time"

	"flockd/backends"
)

func TestClocksRun(t *testing.T) {
	for _, c := range []backends.Clock{backends.Boottime, backends.Monotonic} {
		clock, began := clockOf(c), time.Now()
		first := clock()
		<-time.After(time.Millisecond)
		passed, by := clock()-first, time.Since(began)
		if first <= 0 || passed < time.Millisecond || passed > by {
			t.Errorf("clock %d: from %v, %v in %v", c, first, passed, by)
		}
	}
	if monotonic := clockOf(backends.Monotonic)(); clockOf(backends.Boottime)() < monotonic {
		t.Error("the clock that counts suspend is behind")
	}
}
