package backends

import (
	"context"
	"sync"
	"time"
)

// ServerClock is what a client knows of a clock elsewhere, by what that has said. The zero
// ServerClock knows nothing. It is safe for concurrent use.
type ServerClock struct {
	mu    sync.Mutex
	said  time.Time // by the server
	asked time.Time // before that, by our own
}

// Read takes note of what the server said to a question that was asked at the local time
// asked.
func (c *ServerClock) Read(said, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said, c.asked = said, asked
}

// Deadline is the instant by the server's clock at which ctx ends, or a round trip later;
// zero: unknown.
func (c *ServerClock) Deadline(ctx context.Context) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline, ok := ctx.Deadline()
	if !ok || c.said.IsZero() {
		return time.Time{}
	}
	return c.said.Add(deadline.Sub(c.asked))
}

// Now is what the server's clock says, as far as is known: our own may be off.
func (c *ServerClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said.IsZero() {
		return time.Now()
	}
	return c.said.Add(time.Since(c.asked))
}
