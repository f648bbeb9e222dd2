package redis

import (
	"testing"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

func BenchmarkRenew(b *testing.B) {
	s := open(b, "redis://"+servers.Redis(b).Addr)
	lease := acquire(b, s, request("k"))
	for b.Loop() {
		renew(b, s, lease)
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	s := open(b, "redis://"+servers.Redis(b).Addr)
	for b.Loop() {
		release(b, s, acquire(b, s, request("k")))
	}
}

func BenchmarkSkip(b *testing.B) {
	s := open(b, "redis://"+servers.Redis(b).Addr)
	acquire(b, s, request("k"))
	for b.Loop() {
		held(b, s, request("k"))
	}
}

// With a line of a thousand, a question costs what it costs without.
func BenchmarkSkipBehindALine(b *testing.B) {
	s := open(b, "redis://"+servers.Redis(b).Addr)
	acquire(b, s, request("k"))
	for range 1000 {
		held(b, s, queue("k"))
	}
	for b.Loop() {
		held(b, s, request("k"))
	}
}

// With a connection for each: what a run pays.
func BenchmarkRun(b *testing.B) {
	url := "redis://" + servers.Redis(b).Addr
	for b.Loop() {
		s := open(b, url)
		if err := s.Release(b.Context(), "k", acquire(b, s, backends.Request{Key: "k", ID: backends.NewID(), Mode: backends.Exclusive, TTL: 1e9}).ID, backends.Outcome{}); err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}
