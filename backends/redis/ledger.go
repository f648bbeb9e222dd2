package redis

import (
	"context"
	"iter"
	"slices"

	"flockd/backends"
)

// once is what acquire.lua is told of a run that isn't repeated: its name, and between
// which instants of the server's clock it is that one. If the server's clock says
// otherwise, we are told what it says and ask again.
func (s *Store) once(o *backends.Once) []any {
	if o == nil {
		return []any{"", "", 0, 0, 0}
	}
	kept := ceil(o.KeepFor())
	if o.ID != "" {
		return []any{"i" + o.ID, o.ID, 0, int64(1) << 53, kept}
	}
	now := s.clock.Now()
	first, last := o.Reach(now)
	return []any{"p", o.RunAt(now), first.UnixMicro(), last.UnixMicro(), kept}
}

// Completed implements backends.Ledger.
func (s *Store) Completed(ctx context.Context, key, run string) (backends.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, s.to.timeout)
	defer cancel()
	a, err := s.run(ctx, completedScript, key, "", 0, run)
	if err == nil && a.text(0) == "" {
		err = backends.ErrNotFound
	}
	if err != nil {
		return backends.Entry{}, s.failed("look up a run of", key, err)
	}
	e, err := decode[entry](a.text(0), "completed run", key)
	return e.public(run), s.failed("look up a run of", key, err)
}

// Complete implements backends.Ledger. As a grant does, it counts once enough replicas
// have it.
func (s *Store) Complete(ctx context.Context, lease backends.Lease) error {
	ctx, cancel := context.WithTimeout(ctx, s.to.timeout)
	defer cancel()
	a, err := s.run(ctx, completeScript, lease.Key, lease.ID, s.to.replicas, lease.Run, ceil(lease.Keep))
	s.ring(ctx, lease.Key, a.texts(1))
	switch {
	case err != nil:
	case a.text(0) != "completed":
		err = gone(a.text(2))
	default:
		err = s.enough(a)
	}
	return s.failed("complete a run of", lease.Key, err)
}

// Entries implements backends.Ledger. It reads a thousand at a time.
func (s *Store) Entries(ctx context.Context, key string) iter.Seq2[backends.Entry, error] {
	return func(yield func(backends.Entry, error) bool) {
		for after := "-inf"; after != ""; {
			entries, last, err := s.entries(ctx, key, after)
			if err != nil {
				yield(backends.Entry{}, s.failed("list the runs of", key, err))
				return
			}
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
			after = last
		}
	}
}

// entries are the completed runs whose place is behind after, and the place of the last
// of them; "" if there are no more.
func (s *Store) entries(ctx context.Context, key, after string) (entries []backends.Entry, last string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.to.timeout)
	defer cancel()
	const step = 1000 // some 5 ms of the server's time
	a, err := s.run(ctx, entriesScript, key, "", 0, after, step)
	if err != nil {
		return nil, "", err
	}
	for pair := range slices.Chunk(a.texts(1), 2) {
		e, err := decode[entry](pair[len(pair)-1], "completed run", key)
		if err != nil {
			return nil, "", err
		}
		entries = append(entries, e.public(pair[0]))
	}
	if a.number(2) == step {
		last = a.text(0)
	}
	return entries, last, nil
}

// Forget implements backends.Ledger.
func (s *Store) Forget(ctx context.Context, key, run string) error {
	ctx, cancel := context.WithTimeout(ctx, s.to.timeout)
	defer cancel()
	a, err := s.run(ctx, forgetScript, key, "", 0, run)
	if err == nil && a.text(0) != "forgotten" {
		err = backends.ErrNotFound
	}
	return s.failed("forget a run of", key, err)
}
