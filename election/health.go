package election

import (
	"errors"
	"time"
)

const (
	// lineMoves is how soon whoever stands in line hears something: a question lasts 8 s at
	// most, and the next one comes within 5 s.
	lineMoves = time.Minute
	// dies is how much later than its KILL a command may be gone: as with the
	// runner, which says then that it can't be killed.
	dies = 2 * time.Second
	// given is how long it may take to give a key back, and part with the guard.
	given = 10 * time.Second
)

var (
	errSilent = errors.New("nothing was heard from the line for long")
	errLeads  = errors.New("the lease has ended, and the command is not being stopped")
	errLives  = errors.New("the command is not gone in time")
	errKeeps  = errors.New("the key is not given back in time")
	errHooks  = errors.New("the hooks have not ended in time")
)

// wellUntil sets until when the candidate is well unless it hears something.
func (c *candidate) wellUntil(left time.Duration, or error) {
	c.until, c.or = time.Now().Add(left), or
}

// health is nil while the candidate does what it has to.
func (c *candidate) health() error {
	if c.state.Phase != Resting && time.Now().After(c.until) {
		return c.or
	}
	return nil
}
