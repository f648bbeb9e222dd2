package redis

import (
	"context"
	"strconv"

	"flockd/backends"
)

// Admit implements backends.Register. As a grant does, it counts once enough replicas
// have it.
func (s *Store) Admit(ctx context.Context, resource string, token backends.Token) error {
	return s.failed("admit a token for", resource, s.admit(ctx, resource, token, false))
}

// Reset implements backends.Register.
func (s *Store) Reset(ctx context.Context, resource string, to backends.Token, down bool) error {
	return s.failed("reset the token of", resource, s.admit(ctx, resource, to, down))
}

func (s *Store) admit(ctx context.Context, resource string, token backends.Token, down bool) error {
	if err := backends.CheckAdmit(resource, token); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.to.timeout)
	defer cancel()
	a, err := s.eval(ctx, admitScript, []string{s.to.prefix.fence(resource)}, s.to.replicas, backends.RecordVersion, int64(token), down)
	switch {
	case err != nil:
		return err
	case a.text(0) == "admitted":
		return s.enough(a)
	}
	highest, err := s.tokenOf(resource, a.text(1), a.text(2))
	switch {
	case err != nil:
		return err
	case highest <= token: // the script couldn't read it
		return s.noToken(resource)
	}
	return &backends.StaleError{Resource: resource, Token: token, Highest: highest}
}

// Highest implements backends.Register.
func (s *Store) Highest(ctx context.Context, resource string) (backends.Token, error) {
	ctx, cancel := context.WithTimeout(ctx, s.to.timeout)
	defer cancel()
	const op = "look up the token of"
	a, err := s.eval(ctx, highestScript, []string{s.to.prefix.fence(resource)}, 0)
	if err == nil && a.text(0) == "" && a.text(1) == "" {
		err = backends.ErrNotFound
	}
	if err != nil {
		return 0, s.failed(op, resource, err)
	}
	token, err := s.tokenOf(resource, a.text(0), a.text(1))
	return token, s.failed(op, resource, err)
}

// tokenOf reads the record of a resource.
func (s *Store) tokenOf(resource, version, text string) (backends.Token, error) {
	v, err := strconv.Atoi(version)
	switch {
	case err != nil || v < 1:
		return 0, s.noToken(resource)
	case v > backends.RecordVersion:
		return 0, newer("highest token", resource, v)
	}
	token, err := strconv.ParseInt(text, 10, 64)
	if err != nil || backends.CheckToken(backends.Token(token)) != nil {
		return 0, s.noToken(resource)
	}
	return backends.Token(token), nil
}

// noToken refuses a record that can't be read.
func (s *Store) noToken(resource string) error {
	return backends.Refuse("delete it in Redis, then flockd fence reset with --to the last token",
		"what %q has in place of the highest token of %q is no record of flockd's", s.to.prefix.fence(resource), resource)
}
