package runner

import (
	"slices"
	"testing"
	"time"

	"flockd/backends"
)

func TestEnviron(t *testing.T) {
	backend := func() string { return "sqlite:" }
	inherited := []string{"PATH=/bin", "FLOCKD_TOKEN=1", "FLOCKD_HELD=forged", "FLOCKD_SLOT=7", "FLOCKD_ONCE=old", "FLOCKD_BACKEND=redis://outer", "FLOCKD_GRACE=x", "FLOCKD_KEY=outer"}
	lease := backends.Lease{Key: "a b/c", ID: "us", Token: 1 << 52, Mode: backends.Exclusive, TTL: 90 * time.Second}
	slot := lease
	slot.Mode, slot.TTL, slot.Run = backends.Slots, 1500*time.Millisecond, "v42"
	for _, tc := range []struct {
		name  string
		o     Options
		lease *backends.Lease
		want  []string
	}{
		{
			"outermost", Options{Command: Command{Env: inherited, Backend: backend}}, &lease,
			[]string{"PATH=/bin", "FLOCKD_GRACE=x", "FLOCKD_KEY=a b/c", "FLOCKD_TOKEN=4503599627370496", "FLOCKD_ID=us", "FLOCKD_TTL=90", "FLOCKD_HELD=us", "FLOCKD_BACKEND=sqlite:"},
		},
		{
			"nested, slot 0, once", Options{Command: Command{Env: inherited, Backend: backend}, Chain: []string{"outermost", "outer"}}, &slot,
			[]string{"PATH=/bin", "FLOCKD_GRACE=x", "FLOCKD_KEY=a b/c", "FLOCKD_TOKEN=4503599627370496", "FLOCKD_ID=us", "FLOCKD_TTL=1.5", "FLOCKD_SLOT=0", "FLOCKD_ONCE=v42", "FLOCKD_HELD=outermost,outer,us", "FLOCKD_BACKEND=sqlite:"},
		},
		{
			"unlocked", Options{Command: Command{Env: inherited, Backend: backend}, Chain: []string{"outer"}}, nil,
			[]string{"PATH=/bin", "FLOCKD_GRACE=x", "FLOCKD_KEY=a b/c", "FLOCKD_HELD=outer", "FLOCKD_BACKEND=sqlite:"},
		},
		{"unlocked, outermost", Options{Command: Command{Env: inherited}}, nil, []string{"PATH=/bin", "FLOCKD_GRACE=x", "FLOCKD_KEY=a b/c"}},
	} {
		tc.o.Request.Key = lease.Key
		if got := environ(&tc.o, tc.o.Command, tc.lease); !slices.Equal(got, tc.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", tc.name, got, tc.want)
		}
	}
	if inherited[1] != "FLOCKD_TOKEN=1" {
		t.Error("the environment of the caller was changed")
	}
}

// TestEnvironAfter: what follows a term isn't within its hold, or its guard would kill it.
func TestEnvironAfter(t *testing.T) {
	lease := backends.Lease{ID: "us", Token: 5, Mode: backends.Exclusive, TTL: time.Second}
	for _, tc := range []struct{ chain, want []string }{
		{nil, []string{"FLOCKD_KEY=k", "FLOCKD_TOKEN=5", "FLOCKD_ID=us", "FLOCKD_TTL=1"}},
		{[]string{"outer"}, []string{"FLOCKD_KEY=k", "FLOCKD_TOKEN=5", "FLOCKD_ID=us", "FLOCKD_TTL=1", "FLOCKD_HELD=outer"}},
	} {
		o := &Options{Chain: tc.chain, Request: backends.Request{Key: "k"}}
		if got := Environ(o, Command{Env: []string{"FLOCKD_HELD=forged"}}, lease); !slices.Equal(got, tc.want) {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}
