package redis

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"flockd/backends"
)

// Store is one client of a Redis.
type Store struct {
	to     *settings
	client *redis.Client

	mu     sync.Mutex
	ears   []*redis.Client // for Wait, each with a connection that nobody listens on now
	closed bool
}

var _ interface {
	backends.Backend
	backends.Waiter
} = (*Store)(nil)

// Open reads the URL. The first request connects.
func Open(_ context.Context, u *backends.URL) (backends.Backend, error) {
	to, err := read(u)
	if err != nil {
		return nil, err
	}
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
	defer s.mu.Unlock()
	for _, ear := range s.ears {
		ear.Close()
	}
	s.ears, s.closed = nil, true
	return s.client.Close()
}
