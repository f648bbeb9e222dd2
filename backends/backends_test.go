package backends_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"flockd/backends"
)

// bare can do nothing but be a Backend; hinted is a Waiter too.
type (
	bare   struct{ backends.Backend }
	hinted struct{ backends.Backend }
)

func (hinted) Wait(context.Context, *backends.HeldError) error { return nil }

// A decorator hides what it decorates from the type system, not from As.
type decorator struct{ inner backends.Backend }

func (d decorator) Unwrap() backends.Backend { return d.inner }

type decorated struct {
	backends.Backend
	decorator
}

func decorate(b backends.Backend) backends.Backend { return decorated{nil, decorator{b}} }

func TestAs(t *testing.T) {
	waiter := hinted{}
	for _, b := range []backends.Backend{waiter, decorate(waiter), decorate(decorate(waiter))} {
		if got, ok := backends.As[backends.Waiter](b); !ok || got != backends.Waiter(waiter) {
			t.Errorf("As(%+v) = %v, %v", b, got, ok)
		}
		if _, ok := backends.As[backends.Register](b); ok {
			t.Errorf("As finds a register in %+v", b)
		}
	}
	for _, b := range []backends.Backend{nil, bare{}, decorate(bare{}), decorate(nil)} {
		if got, ok := backends.As[backends.Waiter](b); ok || got != nil {
			t.Errorf("As(%+v) = %v", b, got)
		}
	}
}

func TestErrors(t *testing.T) {
	cause := errors.New("cause")
	all := []error{
		backends.ErrHeld, backends.ErrLost, backends.ErrStale, backends.ErrNotFound, backends.ErrDone, backends.ErrRefused, cause,
	}
	for _, tt := range []struct {
		err error
		is  []error
	}{
		{&backends.HeldError{Key: "k"}, []error{backends.ErrHeld}},
		{&backends.StaleError{Resource: "r", Token: 1, Highest: 2}, []error{backends.ErrStale}},
		{&backends.DoneError{Key: "k", Entry: backends.Entry{Run: "r"}}, []error{backends.ErrDone}},
		{backends.Refuse("hint", "refused: %w", cause), []error{backends.ErrRefused, cause}},
	} {
		for _, target := range all {
			want := false
			for _, is := range tt.is {
				want = want || is == target
			}
			if errors.Is(fmt.Errorf("acquire: %w", tt.err), target) != want {
				t.Errorf("%v is %v: %v", tt.err, target, !want)
			}
		}
	}
	var refused *backends.RefusedError
	if err := backends.Refuse("hint", "no %s", "right"); !errors.As(err, &refused) || refused.Hint != "hint" || err.Error() != "no right" {
		t.Errorf("Refuse = %#v", err)
	}
}

func TestTrusted(t *testing.T) {
	exact := backends.Traits{}
	coarse := backends.Traits{Slack: func(ttl time.Duration) time.Duration { return ttl / 20 }}
	if a, b := exact.Trusted(time.Minute), coarse.Trusted(time.Minute); a != time.Minute || b != 57*time.Second {
		t.Errorf("trusted %v and %v", a, b)
	}
}

func TestLookEvery(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		time.Second: 100 * time.Millisecond, 15 * time.Second: 500 * time.Millisecond, time.Hour: 5 * time.Second,
	} {
		if got := backends.LookEvery(ttl); got != want {
			t.Errorf("LookEvery(%v) = %v, want %v", ttl, got, want)
		}
	}
}
