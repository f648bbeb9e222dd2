package runner

import (
	"context"
	"errors"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
	"flockd/runner/proof"
)

var errDown = errors.New("down")

// provings are what comes between the grant and the question, and what is to come of it: the
// answer, how often the lease was renewed, and how often the holder was asked.
var provings = map[string]struct {
	change  func(*testing.T, *mem.Store, *faulty, *backends.Lease)
	want    proof.Answer
	err     error
	renewed int
	asked   int
}{
	"stands":  {nil, proof.Answer{State: proof.Held, Monotonic: true, TTL: time.Minute}, nil, 1, 0},
	"another": {func(_ *testing.T, _ *mem.Store, _ *faulty, l *backends.Lease) { l.Token++ }, proof.Answer{State: proof.Other}, nil, 0, 0},
	"given back": {func(t *testing.T, b *mem.Store, _ *faulty, _ *backends.Lease) {
		if err := b.Release(t.Context(), "k", "us", backends.Outcome{}); err != nil {
			t.Error(err)
		}
	}, proof.Answer{State: proof.Lost, Why: "the hold is gone"}, nil, 1, 0},
	"removed": {func(t *testing.T, b *mem.Store, _ *faulty, _ *backends.Lease) {
		breaks(t, b, backends.Notice{Force: true, Reason: "burnt down"})
	}, proof.Answer{State: proof.Lost, Why: "broken by root@web2: burnt down"}, nil, 1, 0},
	"asked before": {func(t *testing.T, b *mem.Store, _ *faulty, _ *backends.Lease) {
		breaks(t, b, backends.Notice{Reason: "deploy"})
	}, proof.Answer{State: proof.Stopping, Why: "asked to stop by root@web2: deploy"}, nil, 0, 0},
	"asked meanwhile": {func(t *testing.T, b *mem.Store, f *faulty, _ *backends.Lease) {
		renew := f.renew
		f.renew = func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
			breaks(t, b, backends.Notice{Reason: "deploy"})
			return renew(ctx, l)
		}
	}, proof.Answer{State: proof.Stopping, Why: "asked to stop by root@web2: deploy"}, nil, 1, 1},
	"down": {func(_ *testing.T, _ *mem.Store, f *faulty, _ *backends.Lease) {
		f.renew = func(context.Context, backends.Lease) (backends.Renewal, error) { return backends.Renewal{}, errDown }
	}, proof.Answer{}, errDown, 0, 0},
}

// Who proves a hold in its holder's stead leaves to that what it is asked, and a lease as long as
// it was.
func TestProveThroughTheStore(t *testing.T) {
	for name, tc := range provings {
		t.Run(name, func(t *testing.T) {
			b := mem.New()
			lease := hold(t, b, "us")
			renewed, asked := 0, 0
			f := &faulty{Backend: b}
			f.renew = func(ctx context.Context, l backends.Lease) (backends.Renewal, error) {
				renewed++
				return b.Renew(ctx, l)
			}
			f.ask = func(ctx context.Context, key, id string, n backends.Notice) error {
				asked++
				if n.Reason != "deploy" || n.Force {
					t.Errorf("handed back: %+v", n)
				}
				return b.Ask(ctx, key, id, n)
			}
			if tc.change != nil {
				tc.change(t, b, f, &lease)
			}
			a, err := Prove(t.Context(), f, backends.Lease{Key: "k", ID: "us", Token: lease.Token}, 0)
			if a.State == proof.Held {
				if a.Lasts <= 0 || a.Lasts > 59_400*time.Millisecond {
					t.Errorf("lasts %v", a.Lasts)
				}
				a.Lasts = 0
			}
			if a != tc.want || !errors.Is(err, tc.err) || renewed != tc.renewed || asked != tc.asked {
				t.Errorf("%+v, %v; renewed %d times, asked %d times", a, err, renewed, asked)
			}
		})
	}
}
