package stored

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

	// sweepAtMost is how long a release may take longer to drop what nobody uses.
	sweepAtMost = 500 * time.Millisecond
)

// Renew implements backends.Backend.
func (s *Store) Renew(ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	a, _, err := s.do(ctx, Renew, lease.Key, lease.ID, int64(backends.RecordVersion), micros(lease.TTL))
	if err == nil && a.Is != "renewed" {
		err = a.gone()
	}
	if err != nil {
		return backends.Renewal{}, failed("renew", lease.Key, err)
	}
	return backends.Renewal{TTL: lease.TTL, Notice: backends.Notice(a.Notice)}, nil
}

// Release implements backends.Backend.
func (s *Store) Release(ctx context.Context, key, id string, outcome backends.Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	ran := outcome != (backends.Outcome{})
	a, _, err := s.do(ctx, Release, key, id, int64(backends.RecordVersion), micros(tombstone),
		ran, ascii(outcome.Class), int64(outcome.Exit), outcome.Success, noticeText(outcome.Notice))
	if err == nil {
		s.sweep(ctx)
	}
	if err == nil && a.Is != "released" {
		err = a.gone()
	}
	return failed("release", key, err)
}

// sweep drops some of the keys that nobody has used for long, if we have added one. What it
// fails to drop another sweep will.
func (s *Store) sweep(ctx context.Context) {
	if s.made.CompareAndSwap(true, false) {
		ctx, cancel := context.WithTimeout(ctx, sweepAtMost)
		defer cancel()
		s.server.Do(ctx, Sweep, int64(backends.RecordVersion))
	}
}

// Ask implements backends.Backend.
func (s *Store) Ask(ctx context.Context, key, id string, notice backends.Notice) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	a, _, err := s.do(ctx, Ask, key, id, int64(backends.RecordVersion), noticeText(notice), notice.Force,
		notice.Kind == backends.Supersede, micros(backends.RemovedFor))
	if err == nil && a.Is != "asked" {
		err = backends.ErrNotFound
	}
	return failed("ask", key, err)
}
