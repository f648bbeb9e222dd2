package etcd

import (
	"context"
	"errors"
	"slices"
	"testing"

	"flockd/backends"
)

// actsOn is an Acquire that looks, and acts on what it saw when between has been done.
func actsOn(t testing.TB, s *Store, req backends.Request, between func()) (lease backends.Lease, err error) {
	t.Helper()
	step := func(do func(a *asking) error) error {
		return s.call(t.Context(), func(ctx context.Context, l *link) error {
			return do(&asking{Request: req, s: s, l: l, n: s.names(req.Key), made: new(attempt)})
		})
	}
	var v *view
	if err := step(func(a *asking) error {
		v, err = a.look(t.Context())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	between()
	err = step(func(a *asking) error {
		lease, err = a.act(t.Context(), v)
		return err
	})
	return lease, err
}

// What an acquisition does after its own release comes too late.
func TestLateRequests(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	for name, before := range map[string]func(t *testing.T, s *Store, req backends.Request){
		"enter": func(*testing.T, *Store, backends.Request) {},
		"join":  func(t *testing.T, s *Store, req backends.Request) { acquire(t, s, another(req)) },
		"promote": func(t *testing.T, s *Store, req backends.Request) {
			first := acquire(t, s, another(req))
			held(t, s, req)
			release(t, s, first)
		},
		"stay": func(t *testing.T, s *Store, req backends.Request) {
			acquire(t, s, another(req))
			held(t, s, req)
		},
		"extend": func(t *testing.T, s *Store, req backends.Request) { acquire(t, s, req) },
	} {
		t.Run(name, func(t *testing.T) {
			s, req := open(t, url), another(request(t))
			before(t, s, req)
			_, err := actsOn(t, s, req, func() { s.Release(t.Context(), req.Key, req.ID, backends.Outcome{}) })
			if !errors.Is(err, errMoved) && !(name == "stay" && errors.Is(err, backends.ErrHeld)) {
				t.Errorf("what came late = %v", err)
			}
			if slices.Contains(line(t, s, req.Key), req.ID) {
				t.Error("it is in line again")
			}
			if _, err := s.Acquire(t.Context(), req); !errors.Is(err, backends.ErrLost) {
				t.Errorf("Acquire = %v", err)
			}
		})
	}
}

// A turn that is taken without a look is as late.
func TestLateTurn(t *testing.T) {
	t.Parallel()
	_, url := server(t)
	s, around, req := open(t, url), open(t, url), another(request(t))
	first := acquire(t, around, another(req))
	answer := held(t, s, req)
	release(t, around, first)
	wait(t, s, answer)
	if k := s.memory.recall(req.ID); !k.woken || k.claim == nil {
		t.Errorf("%+v: it would look first", k)
	}
	release(t, around, backends.Lease{Key: req.Key, ID: req.ID})
	if _, err := s.Acquire(t.Context(), req); !errors.Is(err, backends.ErrLost) {
		t.Errorf("Acquire = %v", err)
	}
	if got := line(t, s, req.Key); len(got) > 0 {
		t.Errorf("%v is in line again", got)
	}
}
