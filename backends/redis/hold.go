package redis

import (
	"context"
	"time"

	"flockd/backends"
)

const (
	// tombstone is how long an ID that was released stays forbidden. What it must
	// outlast is an acquire that is still under way: TCP goes on delivering what a
	// client sent for as long as some 15 min (tcp_retries2), also when that is gone.
	tombstone = 20 * time.Minute

	// idle is how long the token and the last run of a key that nobody uses are kept:
	// long enough for a job that runs each quarter. Tokens grow on without it.
	idle = 100 * 24 * time.Hour
)

// Renew implements backends.Backend.
func (s *Store) Renew(ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
	ctx, cancel := context.WithTimeout(ctx, s.to.timeout)
	defer cancel()
	a, err := s.run(ctx, renewScript, lease.Key, lease.ID, s.to.replicas, ceil(lease.TTL))
	switch {
	case err != nil:
	case a.text(0) != "renewed":
		err = gone(a.text(1))
	default:
		err = s.enough(a)
	}
	if err != nil {
		return backends.Renewal{}, s.failed("renew", lease.Key, err)
	}
	return backends.Renewal{TTL: lease.TTL, Notice: noticeOf(a.text(1))}, nil
}

// gone is the answer to what is asked for an ID that has ended; told is what told in
// common.lua says.
func gone(told string) error {
	if notice := noticeOf(told); notice != (backends.Notice{}) {
		return &backends.RemovedError{Notice: notice}
	}
	return backends.ErrLost
}

// Release implements backends.Backend. It waits for no replica: what a failover takes
// back of it ends with the lease.
func (s *Store) Release(ctx context.Context, key, id string, outcome backends.Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, s.to.timeout)
	defer cancel()
	ran := outcome != (backends.Outcome{})
	notice := ""
	if outcome.Notice != (backends.Notice{}) {
		notice = encode(outcome.Notice)
	}
	a, err := s.run(ctx, releaseScript, key, id, 0, tombstone.Milliseconds(), idle.Milliseconds(),
		ran, outcome.Class, outcome.Exit, outcome.Success, notice)
	s.ring(ctx, key, a.texts(1))
	if err == nil && a.text(0) != "released" {
		err = gone(a.text(2))
	}
	return s.failed("release", key, err)
}

// Ask implements backends.Backend.
func (s *Store) Ask(ctx context.Context, key, id string, notice backends.Notice) error {
	ctx, cancel := context.WithTimeout(ctx, s.to.timeout)
	defer cancel()
	a, err := s.run(ctx, askScript, key, id, 0, backends.RemovedFor.Milliseconds(), idle.Milliseconds(),
		encode(notice), notice.Force, notice.Kind == backends.Supersede, backends.Broken)
	s.ring(ctx, key, a.texts(1))
	if err == nil && a.text(0) != "asked" {
		err = backends.ErrNotFound
	}
	return s.failed("ask", key, err)
}
