package redis

import (
	"context"
	"maps"
	"path/filepath"
	"sync"

	"github.com/redis/go-redis/v9"

	"flockd/backends"
	"flockd/backends/certs"
)

// Store is one client of a Redis.
type Store struct {
	url    *backends.URL
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
	return &Store{url: u, to: to, client: connect(to)}, nil
}

// Traits: a claim is a record of the server's, which any client can work on and
// which stays. It is timed in µs by the clock that also says when it ends, so that
// no part of a lease is lost to granularity.
func (s *Store) Traits() backends.Traits {
	return backends.Traits{Clock: backends.Boottime, Portable: true, Outlives: true}
}

// Address is the store's URL, with the files that it names in a form that holds in
// any folder.
func (s *Store) Address() string {
	u := *s.url
	u.Query = maps.Clone(u.Query)
	for _, option := range append([]string{"password-file"}, certs.Options...) {
		if file := u.Query.Get(option); file != "" {
			if absolute, err := filepath.Abs(file); err == nil {
				u.Query.Set(option, absolute)
			}
		}
	}
	return u.String()
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
