package redis

import (
	"errors"
	"strings"
	"testing"
	"time"

	"flockd/backends"
)

func openURL(t testing.TB, text string) (*Store, error) {
	t.Helper()
	u, err := backends.ParseURL(text)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(t.Context(), u)
	if err != nil {
		return nil, err
	}
	s := b.(*Store)
	t.Cleanup(func() { s.Close() })
	return s, nil
}

func open(t testing.TB, url string) *Store {
	t.Helper()
	s, err := openURL(t, url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func request(key string) backends.Request {
	return backends.Request{Key: key, ID: backends.NewID(), Mode: backends.Exclusive, TTL: time.Minute}
}

func acquire(t testing.TB, s *Store, r backends.Request) backends.Lease {
	t.Helper()
	lease, err := s.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// do runs one command like a stranger would.
func do(t testing.TB, s *Store, args ...any) any {
	t.Helper()
	v, err := s.client.Do(t.Context(), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

func wantRefused(t testing.TB, err error, text string) {
	t.Helper()
	if !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), text) {
		t.Errorf("err = %v, want a refusal that says %q", err, text)
	}
}

// wantTrouble is for an error that may pass.
func wantTrouble(t testing.TB, err error, text string) {
	t.Helper()
	if err == nil || errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), text) {
		t.Errorf("err = %v, want an ordinary error that says %q", err, text)
	}
}
