package mem

import (
	"context"
	"iter"
	"slices"
	"time"

	"flockd/backends"
)

// succeeded looks up the run that a grant now would be for.
func (r *record) succeeded(once *backends.Once, now time.Time) (backends.Entry, bool) {
	if once == nil {
		return backends.Entry{}, false
	}
	return r.completed(once.RunAt(now), now)
}

// completed looks run up among those that aren't forgotten yet.
func (r *record) completed(run string, now time.Time) (backends.Entry, bool) {
	r.done = slices.DeleteFunc(r.done, func(e backends.Entry) bool {
		return !e.Forgets.IsZero() && !now.Before(e.Forgets)
	})
	i := slices.IndexFunc(r.done, func(e backends.Entry) bool { return e.Run == run })
	if i < 0 {
		return backends.Entry{}, false
	}
	return r.done[i], true
}

func (s *Store) Completed(ctx context.Context, key, run string) (backends.Entry, error) {
	r, now, err := s.begin(ctx, key)
	if err != nil {
		return backends.Entry{}, err
	}
	defer s.mu.Unlock()
	entry, ok := r.completed(run, now)
	if !ok {
		return entry, backends.ErrNotFound
	}
	return entry, nil
}

// Complete records a success once: a second call changes nothing.
func (s *Store) Complete(ctx context.Context, lease backends.Lease) error {
	r, now, err := s.begin(ctx, lease.Key)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	c := r.holding(lease.ID)
	if c == nil {
		return r.gone(lease.ID)
	}
	if _, ok := r.completed(lease.Run, now); ok {
		return nil
	}
	entry := backends.Entry{Run: lease.Run, Token: c.Token, Owner: c.Owner, At: now}
	if lease.Keep > 0 {
		entry.Forgets = now.Add(lease.Keep)
	}
	r.done = append(r.done, entry)
	r.moved()
	return nil
}

func (s *Store) Entries(ctx context.Context, key string) iter.Seq2[backends.Entry, error] {
	return func(yield func(backends.Entry, error) bool) {
		r, now, err := s.begin(ctx, key)
		if err != nil {
			yield(backends.Entry{}, err)
			return
		}
		r.completed("", now)
		entries := slices.Clone(r.done)
		s.mu.Unlock()
		for _, entry := range entries {
			if !yield(entry, nil) {
				return
			}
		}
	}
}

func (s *Store) Forget(ctx context.Context, key, run string) error {
	r, now, err := s.begin(ctx, key)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if _, ok := r.completed(run, now); !ok {
		return backends.ErrNotFound
	}
	r.done = slices.DeleteFunc(r.done, func(e backends.Entry) bool { return e.Run == run })
	return nil
}

func (s *Store) Admit(ctx context.Context, resource string, token backends.Token) error {
	return s.Reset(ctx, resource, token, false)
}

func (s *Store) Highest(ctx context.Context, resource string) (backends.Token, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	token, ok := s.highest[resource]
	if !ok {
		return 0, backends.ErrNotFound
	}
	return token, nil
}

func (s *Store) Reset(ctx context.Context, resource string, to backends.Token, down bool) error {
	if err := backends.CheckAdmit(resource, to); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if highest := s.highest[resource]; to < highest && !down {
		return &backends.StaleError{Resource: resource, Token: to, Highest: highest}
	}
	s.highest[resource] = to
	return nil
}
