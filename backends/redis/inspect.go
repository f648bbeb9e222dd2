package redis

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"flockd/backends"
)

// Inspect implements backends.Backend.
func (s *Store) Inspect(ctx context.Context, key string) (backends.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, s.to.timeout)
	defer cancel()
	a, err := s.run(ctx, inspectScript, key, "", 0)
	if err != nil {
		return backends.Status{}, s.failed("inspect", key, err)
	}
	status, err := statusOf(key, a)
	return status, s.failed("inspect", key, err)
}

// statusOf reads the answer of inspect.lua.
func statusOf(key string, a answer) (status backends.Status, err error) {
	now := parseMicros(a.text(0))
	status = backends.Status{Key: key, AsOf: now.time()}
	if status.Last, err = lastRun(key, "last run", a.text(1)); err != nil {
		return status, err
	}
	if status.LastSuccess, err = lastRun(key, "last success", a.text(2)); err != nil {
		return status, err
	}
	records := a.pairs(4)
	for _, id := range a.texts(3) {
		text, ok := records[id]
		if !ok {
			continue // evicted
		}
		c, err := decode[claim](text, "line", key)
		if err != nil {
			return status, err
		}
		if max(c.Ends, c.Kept) > now {
			status.Line = append(status.Line, c.public(id, now))
		}
	}
	return status, nil
}

func lastRun(key, what, text string) (*backends.Run, error) {
	if text == "" {
		return nil, nil
	}
	r, err := decode[run](text, what, key)
	if err != nil {
		return nil, err
	}
	return r.public(), nil
}

// texts is the list at i.
func (a answer) texts(i int) (texts []string) {
	if i < len(a.values) {
		values, _ := a.values[i].([]any)
		for _, v := range values {
			text, _ := v.(string)
			texts = append(texts, text)
		}
	}
	return texts
}

// pairs is the list at i of names and values.
func (a answer) pairs(i int) map[string]string {
	pairs := map[string]string{}
	for pair := range slices.Chunk(a.texts(i), 2) {
		pairs[pair[0]] = pair[len(pair)-1]
	}
	return pairs
}

// List implements backends.Backend. Each key's status is as of an instant of its own.
// It goes through all the names in the database, a thousand at a time, for Redis has
// no other way; a proxy may not let it.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[backends.Status, error] {
	names := func() ([]string, error) {
		keys, err := s.keys(ctx, prefix)
		return keys, s.failed("list", prefix, err)
	}
	return backends.Each(names, func(key string) (backends.Status, error) { return s.Inspect(ctx, key) })
}

// keys are the keys that begin with prefix and have records, in order.
func (s *Store) keys(ctx context.Context, prefix string) ([]string, error) {
	found := map[string]bool{}
	for cursor := uint64(0); ; {
		names, next, err := s.scan(ctx, cursor, s.to.prefix.pattern(prefix))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if key, ok := s.to.prefix.lock(name); ok {
				found[key] = true
			}
		}
		if cursor = next; cursor == 0 {
			return slices.Sorted(maps.Keys(found)), nil
		}
	}
}

func (s *Store) scan(ctx context.Context, cursor uint64, pattern string) ([]string, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.to.timeout)
	defer cancel()
	const step = 1000 // names: some 0.3 ms of the server's time
	names, next, err := s.client.Scan(ctx, cursor, pattern, step).Result()
	if said(err) != "" {
		err = fmt.Errorf("listing takes SCAN: %w", s.to.classify(err))
	}
	return names, next, err
}
