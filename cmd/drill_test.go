package cmd

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"flockd/backends"
)

// wraps are broken stores for the contenders of a drill, by name.
var wraps = map[string]func(backends.Backend) backends.Backend{
	"grants-at-once": func(b backends.Backend) backends.Backend { return grantsAtOnce{b} },
	"repeats-terms":  func(b backends.Backend) backends.Backend { return repeatsTerms{b} },
}

// grantsAtOnce is a store whose leases overlap: once the drill has given its key back, each claim
// is granted.
type grantsAtOnce struct{ backends.Backend }

func (b grantsAtOnce) Acquire(ctx context.Context, req backends.Request) (backends.Lease, error) {
	_, err := b.Backend.Acquire(ctx, req)
	var held *backends.HeldError
	if errors.As(err, &held) && slices.ContainsFunc(held.Holders, func(c backends.Claim) bool { return c.Owner.Command == "flockd" }) {
		return backends.Lease{}, err
	}
	token := backends.Token(time.Now().UnixMicro())
	return backends.Lease{Key: req.Key, ID: req.ID, Token: token, Mode: req.Mode, TTL: req.TTL}, nil
}

func (b grantsAtOnce) Renew(_ context.Context, lease backends.Lease) (backends.Renewal, error) {
	return backends.Renewal{TTL: lease.TTL}, nil
}

// Wait has each claim ask again, and not just the first in line.
func (b grantsAtOnce) Wait(ctx context.Context, _ *backends.HeldError) error {
	select {
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// repeatsTerms is a store that grants the same token again and again.
type repeatsTerms struct{ backends.Backend }

func (b repeatsTerms) Unwrap() backends.Backend { return b.Backend }

func (b repeatsTerms) Acquire(ctx context.Context, req backends.Request) (backends.Lease, error) {
	lease, err := b.Backend.Acquire(ctx, req)
	lease.Token = backends.MaxToken
	return lease, err
}

func TestDrillUsage(t *testing.T) {
	for _, c := range []struct {
		args   []string
		wanted []string
	}{
		{[]string{}, []string{"no key is given: --key KEY"}},
		{[]string{"svc"}, []string{"takes no argument", "hint: --key svc"}},
		{[]string{"--key", ""}, []string{"--key"}},
		{[]string{"--key", "svc", "--kill", "--cut"}, []string{"--kill and --cut contradict each other"}},
		{[]string{"--key", "svc", "--kill", "--freeze", "--cut"}, []string{"--kill and --freeze and --cut contradict"}},
		{[]string{"--key", "svc", "-q", "--json"}, []string{"--quiet and --json contradict"}},
		{[]string{"--key", "svc", "-q", "-v"}, []string{"--quiet and --verbose contradict"}},
		{[]string{"--key", "svc", "--ttl", "0.5"}, []string{"--ttl"}},
		{[]string{"--key", strings.Repeat("k", 512), "--ttl", "3s"}, []string{"--key, with .drill behind it"}},
		{[]string{"--key", "svc", "--wait", "3s"}, []string{"no flag --wait"}},
	} {
		wantUsage(t, call(t, nil, append([]string{"drill"}, c.args...)...), c.wanted...)
	}
}

func TestSecondsAreWholeMilliseconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		4794 * time.Millisecond: "4.794", 1122*time.Millisecond - 400*time.Microsecond: "1.122", 15 * time.Second: "15",
	} {
		if got := strconv.FormatFloat(seconds(d), 'g', -1, 64); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
