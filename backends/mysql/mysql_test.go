package mysql

import (
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// urlOf names a server's database, as its own user.
func urlOf(p *servers.Process) string {
	return "mysql://" + servers.MariaDBUser + ":" + servers.MariaDBPassword + "@" + p.Addr + "/" + servers.MariaDBDatabase
}

func openURL(t testing.TB, text string) (backends.Backend, error) {
	t.Helper()
	u, err := backends.ParseURL(text)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), u)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { s.Close() })
	return s, nil
}

func open(t testing.TB, url string) backends.Backend {
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

func acquire(t testing.TB, s backends.Backend, r backends.Request) backends.Lease {
	t.Helper()
	lease, err := s.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}
