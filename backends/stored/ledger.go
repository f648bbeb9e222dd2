package stored

import (
	"context"
	"iter"

	"flockd/backends"
)

// Completed implements backends.Ledger.
func (s *Store) Completed(ctx context.Context, key, run string) (backends.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	_, listed, err := s.do(ctx, Completed, key, int64(backends.RecordVersion), []byte(run))
	found, err := read[entry](listed, err)
	if err == nil && len(found) == 0 {
		err = backends.ErrNotFound
	}
	if err != nil {
		return backends.Entry{}, failed("look up a run of", key, err)
	}
	return found[0].public(), nil
}

// Complete implements backends.Ledger.
func (s *Store) Complete(ctx context.Context, lease backends.Lease) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	a, _, err := s.do(ctx, Complete, lease.Key, lease.ID, int64(backends.RecordVersion), []byte(lease.Run), micros(lease.Keep))
	if err == nil && a.Is != "completed" {
		err = a.gone()
	}
	return failed("complete a run of", lease.Key, err)
}

// Entries implements backends.Ledger. It reads a page at a time.
func (s *Store) Entries(ctx context.Context, key string) iter.Seq2[backends.Entry, error] {
	return func(yield func(backends.Entry, error) bool) {
		for after, more := int64(0), true; more; {
			a, entries, err := s.entries(ctx, key, after)
			if err != nil {
				yield(backends.Entry{}, failed("list the runs of", key, err))
				return
			}
			for _, e := range entries {
				if !yield(e.public(), nil) {
					return
				}
			}
			after, more = a.Place, a.N == page
		}
	}
}

// entries are a page of the completed runs behind the place after.
func (s *Store) entries(ctx context.Context, key string, after int64) (answer, []entry, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	a, listed, err := s.do(ctx, Entries, key, int64(backends.RecordVersion), after, int64(page))
	entries, err := read[entry](listed, err)
	return a, entries, err
}

// Forget implements backends.Ledger.
func (s *Store) Forget(ctx context.Context, key, run string) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	a, _, err := s.do(ctx, Forget, key, int64(backends.RecordVersion), []byte(run))
	if err == nil && a.Is != "forgotten" {
		err = backends.ErrNotFound
	}
	return failed("forget a run of", key, err)
}
