package backendtest

import (
	"errors"
	"testing"
	"time"

	"flockd/backends"
)

// Everything has a store do each of its steps once, and the commonest again: where the whole
// suite would take too long, as under each setting of a server.
func Everything(t testing.TB, b backends.Backend) {
	t.Helper()
	key := "业务:订单-42 " + backends.NewID()[:8]
	asks := func() backends.Request {
		return backends.Request{Key: key, ID: backends.NewID(), Mode: backends.Exclusive, TTL: time.Minute}
	}
	holder, waiter, other := asks(), asks(), asks()
	holder.Owner = backends.Owner{User: "o'brien", Note: `"\ é 𝄞`}
	holder.Once = &backends.Once{ID: `run \ ' 1`}
	waiter.Place = time.Minute
	lease := mustAcquire(t, b, holder)
	for _, r := range []backends.Request{waiter, other} {
		_, err := b.Acquire(t.Context(), r)
		var held *backends.HeldError
		if !errors.As(err, &held) || len(held.Holders) != 1 || held.Holders[0].Owner != holder.Owner {
			t.Errorf("Acquire = %v, not held by %+v", err, holder.Owner)
		}
	}
	if _, err := b.Renew(t.Context(), lease); err != nil {
		t.Error(err)
	}
	ends(t, b, lease, holder.Owner)
	next := mustAcquire(t, b, waiter)
	if next.Token <= lease.Token {
		t.Errorf("token %d after %d", next.Token, lease.Token)
	}
	fences(t, b, lease.Token, next.Token)
	if err := b.Ask(t.Context(), key, waiter.ID, backends.Notice{Kind: backends.Break, Force: true}); err != nil {
		t.Error(err)
	}
	status, err := b.Inspect(t.Context(), key)
	if err != nil || status.Last == nil || status.Last.Class != backends.Broken || status.LastSuccess.Owner != holder.Owner {
		t.Errorf("Inspect = %+v, %v", status, err)
	}
}

// ends completes the run of a hold, releases it, and forgets the run.
func ends(t testing.TB, b backends.Backend, lease backends.Lease, owner backends.Owner) {
	t.Helper()
	ledger, ok := backends.As[backends.Ledger](b)
	if !ok {
		t.Fatal("the store has no ledger")
	}
	if err := ledger.Complete(t.Context(), lease); err != nil {
		t.Error(err)
	}
	if err := b.Release(t.Context(), lease.Key, lease.ID, backends.Outcome{Class: "finished", Success: true}); err != nil {
		t.Error(err)
	}
	if entry, err := ledger.Completed(t.Context(), lease.Key, lease.Run); err != nil || entry.Token != lease.Token || entry.Owner != owner {
		t.Errorf("Completed = %+v, %v", entry, err)
	}
	if err := ledger.Forget(t.Context(), lease.Key, lease.Run); err != nil {
		t.Error(err)
	}
}

// fences admits two tokens, and then sees the smaller one refused.
func fences(t testing.TB, b backends.Backend, smaller, larger backends.Token) {
	t.Helper()
	resource := "资源 \\ ' " + backends.NewID()[:8]
	for _, token := range []backends.Token{smaller, smaller, larger} {
		Admit(t, b, resource, token)
	}
	WantStale(t, RegisterOf(t, b).Admit(t.Context(), resource, smaller), larger)
	WantHighest(t, b, resource, larger)
}

func mustAcquire(t testing.TB, b backends.Backend, r backends.Request) backends.Lease {
	t.Helper()
	lease, err := b.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}
