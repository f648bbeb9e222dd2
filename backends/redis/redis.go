package redis

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"flockd/backends"
)

// server is what a Store knows of the server that it talks to.
type server struct {
	*settings

	// served is set once a script has been answered. From then on, what would
	// otherwise show that the URL names a wrong server is something that has happened
	// to the right one, and may pass: a failover behind the same address, for one.
	served atomic.Bool
}

// Store is one client of a Redis.
type Store struct {
	to     *server
	client *redis.Client
	clock  backends.ServerClock

	mu     sync.Mutex
	ears   []*redis.Client // for Wait and Watch, each with a connection that nobody listens on now
	closed bool
}

var _ interface {
	backends.Backend
	backends.Waiter
	backends.Watcher
	backends.Ledger
	backends.Register
} = (*Store)(nil)

// Open reads the URL. The first request connects.
func Open(_ context.Context, u *backends.URL) (backends.Backend, error) {
	settings, err := read(u)
	if err != nil {
		return nil, err
	}
	to := &server{settings: settings}
	return &Store{to: to, client: connect(to)}, nil
}

// Traits: a claim is a record of the server's, which any client can work on and
// which stays. It is timed in µs by the clock that also says when it ends, so that
// no part of a lease is lost to granularity.
func (s *Store) Traits() backends.Traits {
	return backends.Traits{Clock: backends.Boottime, Portable: true, Outlives: true}
}

// Close closes the connections.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.deafen()
	return s.client.Close()
}
