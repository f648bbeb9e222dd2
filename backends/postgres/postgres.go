package postgres

import (
	"context"
	"sync/atomic"

	"flockd/backends"
	"flockd/backends/stored"
)

// server does steps on a database.
type server struct {
	*settings
	pool pool

	// finds is set where nothing is to be made: a store that nobody has used is left so.
	finds bool

	// served is set once a step has been answered. From then on, what would otherwise show
	// that the URL names a wrong server is something that has happened to the right one, and
	// may pass: a failover, for one.
	served atomic.Bool

	listening atomic.Int32 // how many connections do
}

var _ interface {
	stored.Server
	stored.Listener
} = (*server)(nil)

// Open reads the URL. The first request connects, and makes the schema if nobody has.
func Open(_ context.Context, u *backends.URL) (backends.Backend, error) { return newStore(u, false) }

// Find reads the URL. Requests are answered by a *backends.UnusedError while there is no
// schema.
func Find(_ context.Context, u *backends.URL) (backends.Backend, error) { return newStore(u, true) }

func newStore(u *backends.URL, finds bool) (backends.Backend, error) {
	s, err := read(u)
	if err != nil {
		return nil, err
	}
	to := &server{settings: s, finds: finds}
	to.pool.dial = to.connect
	return stored.New(to, s.timeout), nil
}

// Close closes the connections.
func (s *server) Close() error {
	s.pool.close()
	return nil
}
