package stored

import (
	"context"
	"fmt"

	"flockd/backends"
)

// Admit implements backends.Register.
func (s *Store) Admit(ctx context.Context, resource string, token backends.Token) error {
	return failed("admit a token for", resource, s.admit(ctx, resource, token, false))
}

// Reset implements backends.Register.
func (s *Store) Reset(ctx context.Context, resource string, to backends.Token, down bool) error {
	return failed("reset the token of", resource, s.admit(ctx, resource, to, down))
}

func (s *Store) admit(ctx context.Context, resource string, token backends.Token, down bool) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := backends.CheckAdmit(resource, token); err != nil {
		return err
	}
	a, _, err := s.do(ctx, Admit, resource, int64(backends.RecordVersion), int64(token), down)
	switch {
	case err != nil:
		return err
	case a.Is == "admitted":
		return nil
	case a.Is == "stale":
		return &backends.StaleError{Resource: resource, Token: token, Highest: backends.Token(a.Token)}
	}
	return fmt.Errorf("unknown answer %q", a.Is)
}

// Highest implements backends.Register.
func (s *Store) Highest(ctx context.Context, resource string) (backends.Token, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	a, _, err := s.do(ctx, Highest, resource, int64(backends.RecordVersion))
	if err == nil && a.Is != "admitted" {
		err = backends.ErrNotFound
	}
	return backends.Token(a.Token), failed("look up the token of", resource, err)
}
