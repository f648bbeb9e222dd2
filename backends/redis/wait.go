package redis

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"flockd/backends"
)

// bell is HeldError.Seen: the list of the waiter who got that answer. Whoever makes it
// its turn, or has something else to tell it, also once it holds, pushes to it.
type bell string

const (
	// rung is how long a ring is kept for who isn't listening at the moment. A waiter
	// that hasn't asked for so long has lost its place.
	rung = 15 * time.Second

	// ringAtMost is how long a release may take longer for a hint.
	ringAtMost = 500 * time.Millisecond

	// listenAtMost bounds one listening, so that a dead connection is noticed and a
	// client that is gone leaves nothing behind at the server for longer.
	listenAtMost = 15 * time.Second

	// rounding is how much later than told the server may end a BLPOP or a WAIT: it looks
	// ten times a second at least.
	rounding = 150 * time.Millisecond
)

// ring wakes those waiters who listen. Who doesn't hear it comes by itself when it next
// keeps its place.
func (s *Store) ring(ctx context.Context, key string, ids []string) {
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ringAtMost)
	defer cancel()
	p := s.client.Pipeline()
	for _, id := range ids {
		list := s.to.prefix.bell(key, id)
		p.RPush(ctx, list, "1")
		p.PExpire(ctx, list, rung)
	}
	p.Exec(ctx)
}

// Wait implements backends.Waiter. It listens on a connection of its own.
func (s *Store) Wait(ctx context.Context, held *backends.HeldError) error {
	list, ok := held.Seen.(bell)
	for ok {
		span := listening(ctx)
		if span <= 0 {
			break
		}
		rang, err := s.listen(ctx, s.ear(), list, span)
		if s.mayPass(ctx, err) { // a ring that came meanwhile is kept
			rang, err = s.listen(ctx, connect(s.to), list, listening(ctx))
		}
		if rang || err != nil {
			return s.failed("wait for", held.Key, err)
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// mayPass tells whether another listening, on a new connection, may fare better than
// the one that ended with err: the connection was closed, or the server's role has
// changed. A server that doesn't let us listen never will.
func (s *Store) mayPass(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && !errors.Is(s.to.classify(err), backends.ErrRefused)
}

// listening is how long to listen so that the server ends it before ctx does; 0 or
// less where that isn't worth it.
func listening(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return listenAtMost
	}
	return min(time.Until(deadline)-rounding, listenAtMost)
}

// listen reports whether the bell has rung within span. A listening that was left
// alone would take the next ring of the same waiter, so when ctx ends its connection
// does, and with that the server's part in it.
func (s *Store) listen(ctx context.Context, ear *redis.Client, list bell, span time.Duration) (rang bool, err error) {
	stop := context.AfterFunc(ctx, func() { ear.Close() })
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), span+s.to.timeout)
	defer cancel()
	seconds := strconv.FormatFloat(max(span, time.Millisecond).Seconds(), 'f', 3, 64) // 0 would be for ever
	err = ear.Do(limit, "BLPOP", string(list), seconds).Err()
	if silence := errors.Is(err, redis.Nil); silence || err == nil {
		if stop() {
			s.keep(ear)
		}
		return !silence, nil
	}
	stop()
	ear.Close()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return false, err
}

// ear is a client with one connection, which may be closed at any time without harm
// to others.
func (s *Store) ear() *redis.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.ears); n > 0 {
		ear := s.ears[n-1]
		s.ears = s.ears[:n-1]
		return ear
	}
	return connect(s.to)
}

// keep keeps an ear that nobody listens with for the next one.
func (s *Store) keep(ear *redis.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		ear.Close()
		return
	}
	s.ears = append(s.ears, ear)
}

// deafen closes the ears that nobody listens with.
func (s *Store) deafen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ear := range s.ears {
		ear.Close()
	}
	s.ears = nil
}
