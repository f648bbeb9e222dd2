package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// listeners is how many connections of one client may listen at once: the others are for steps,
// and the other waiters look.
const listeners = connections / 4

// Listen implements stored.Listener. The connection is the one that the question was asked on,
// as a rule, and goes on listening, so that a run that waits has one and no more.
func (s *server) Listen(ctx context.Context, id string, ready func(context.Context) (bool, error)) error {
	if s.listening.Add(1) > listeners {
		s.listening.Add(-1)
		return errors.ErrUnsupported
	}
	defer s.listening.Add(-1)
	l, err := s.pool.take(ctx)
	if err != nil {
		return s.classify(err)
	}
	defer s.pool.give(l)
	look := func() (bool, error) { return ready(context.WithValue(ctx, ours{}, l)) }
	if !l.tried {
		if over, err := look(); over || err != nil {
			return err
		}
	}
	if l.pooled {
		return errors.ErrUnsupported
	}
	l.rang = false
	if err := s.listen(ctx, l, channel(id)); err != nil {
		return err
	}
	if over, err := look(); over || err != nil {
		return err
	}
	return s.await(ctx, l)
}

// channel is what notify_1 makes of an ID.
func channel(id string) string { return "flockd_" + id[:min(len(id), 50)] }

// listen makes the connection listen on a channel and no other.
func (s *server) listen(ctx context.Context, l *link, channel string) error {
	if l.hears == channel {
		return nil
	}
	l.hears = ""
	text := fmt.Sprintf(`UNLISTEN *; LISTEN "%s"`, strings.ReplaceAll(channel, `"`, `""`))
	if _, err := l.Exec(ctx, s.begin(ctx)+text).ReadAll(); err != nil {
		return s.classify(err)
	}
	l.hears = channel
	return nil
}

// await returns when a notification has come.
func (s *server) await(ctx context.Context, l *link) error {
	if l.rang {
		return nil
	}
	err := l.WaitForNotification(ctx)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return s.classify(err)
}
