package stored

import (
	"context"
	"iter"

	"flockd/backends"
)

// page is how many keys or entries are listed by one step: some milliseconds of the server's
// time.
const page = 1000

// Inspect implements backends.Backend.
func (s *Store) Inspect(ctx context.Context, key string) (backends.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	a, listed, err := s.do(ctx, Inspect, key, int64(backends.RecordVersion))
	claims, err := read[claim](listed, err)
	if err != nil {
		return backends.Status{}, failed("inspect", key, err)
	}
	status := backends.Status{Key: key, AsOf: instant(a.Now), Last: a.Last.public(), LastSuccess: a.Success.public()}
	for _, c := range claims {
		status.Line = append(status.Line, c.public(a.Now))
	}
	return status, nil
}

// List implements backends.Backend. Each key's status is as of an instant of its own.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[backends.Status, error] {
	names := func() ([]string, error) {
		keys, err := s.keys(ctx, prefix)
		return keys, failed("list", prefix, err)
	}
	return backends.Each(names, func(key string) (backends.Status, error) { return s.Inspect(ctx, key) })
}

// keys are those that begin with prefix and have a claim or a last run, in order.
func (s *Store) keys(ctx context.Context, prefix string) (keys []string, err error) {
	for after := ""; ; after = keys[len(keys)-1] {
		names, err := s.names(ctx, prefix, after)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			keys = append(keys, string(n.Key))
		}
		if len(names) < page {
			return keys, nil
		}
	}
}

// names are a page of the keys behind after.
func (s *Store) names(ctx context.Context, prefix, after string) ([]name, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	_, listed, err := s.do(ctx, Keys, prefix, []byte(after), int64(page), int64(backends.RecordVersion))
	return read[name](listed, err)
}
