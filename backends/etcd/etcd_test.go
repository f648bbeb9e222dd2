package etcd

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// open connects one more client to the store at url; the end of the test closes it.
func open(t testing.TB, url string) *Store {
	t.Helper()
	u, err := backends.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b.(*Store)
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
