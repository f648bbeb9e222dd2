package runner

import (
	"sync"
	"time"
)

// heard is what a guard goes by, as whoever tells it knows.
type heard struct {
	clock func() time.Duration // the lease's

	lock  sync.Mutex
	told  time.Duration // the deadline that the guard goes by
	acted bool          // an earlier one had passed before it was told that
}

// goesBy says that the guard goes by a deadline from now on, if not before.
func (h *heard) goesBy(kill time.Duration) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.acted = h.acted || h.clock() >= h.told
	h.told = kill
}

// took takes over what another has told the guard.
func (h *heard) took(kill time.Duration, acted bool) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.told, h.acted = kill, h.acted || acted
}

// late reports whether a deadline has passed that the guard went by: a command that
// was killed may have been by it. Flockd learns that when it goes on after having
// been frozen, and perhaps after a renewal that has succeeded meanwhile.
func (h *heard) late() bool {
	h.lock.Lock()
	defer h.lock.Unlock()
	return h.acted || h.clock() >= h.told
}
