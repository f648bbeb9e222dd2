package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// open makes one more client of the store at url; the end of the test closes it.
func open(t testing.TB, url string) *Store {
	t.Helper()
	u, err := backends.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStore(u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// server is an etcd of the test's own, and its URL.
func server(t testing.TB, args ...string) (p *servers.Process, url string) {
	t.Helper()
	p = servers.Etcd(t, servers.Current, args...)
	return p, "etcd://" + p.Addr
}

// request asks for a hold of a key of the test's own, without standing in line.
func request(t testing.TB) backends.Request {
	return backends.Request{
		Key: t.Name(), ID: backends.NewID(), Owner: backends.Owner{User: "alice", Host: "web1", PID: 4711, Command: "report.sh"},
		Mode: backends.Exclusive, TTL: 2 * time.Minute,
	}
}

// another is a request of the same key that stands in line.
func another(req backends.Request) backends.Request {
	req.ID, req.Place = backends.NewID(), 30*time.Second
	return req
}

func acquire(t testing.TB, s *Store, req backends.Request) backends.Lease {
	t.Helper()
	lease, err := answered(t, s, req)
	if err != nil {
		t.Fatalf("Acquire = %v (%+v)", err, err)
	}
	return lease
}

func held(t testing.TB, s *Store, req backends.Request) *backends.HeldError {
	t.Helper()
	_, err := answered(t, s, req)
	var held *backends.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("Acquire = %v, want a HeldError", err)
	}
	return held
}

// answered asks again where there was no answer, for as long as a cluster may take on a busy host.
func answered(t testing.TB, s *Store, req backends.Request) (lease backends.Lease, err error) {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if lease, err = s.Acquire(t.Context(), req); !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	return lease, err
}

func renew(t testing.TB, s *Store, lease backends.Lease) backends.Renewal {
	t.Helper()
	renewal, err := s.Renew(t.Context(), lease)
	if err != nil {
		t.Fatalf("Renew = %v", err)
	}
	return renewal
}

func release(t testing.TB, s *Store, lease backends.Lease) {
	t.Helper()
	outcome := backends.Outcome{Class: "finished", Success: true}
	if err := s.Release(t.Context(), lease.Key, lease.ID, outcome); err != nil {
		t.Fatalf("Release = %v", err)
	}
}

// wait must be told that the line has moved.
func wait(t testing.TB, s *Store, answer *backends.HeldError) {
	t.Helper()
	if err := s.Wait(within(t), answer); err != nil {
		t.Errorf("Wait = %v", err)
	}
}

// line is who is in line, by ID.
func line(t testing.TB, s *Store, key string) (ids []string) {
	t.Helper()
	status, err := s.Inspect(t.Context(), key)
	if err != nil {
		t.Fatalf("Inspect = %v", err)
	}
	for _, c := range status.Line {
		ids = append(ids, c.ID)
	}
	return ids
}

// do runs a transaction of the test's own.
func do(t testing.TB, s *Store, ops ...clientv3.Op) *clientv3.TxnResponse {
	t.Helper()
	var resp *clientv3.TxnResponse
	err := s.call(t.Context(), func(ctx context.Context, l *link) (err error) {
		resp, err = l.txn(ctx, nil, ops, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func put(t testing.TB, s *Store, key, value string) {
	t.Helper()
	do(t, s, clientv3.OpPut(key, value))
}

// within is a context for what should happen soon, on a machine however busy.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
