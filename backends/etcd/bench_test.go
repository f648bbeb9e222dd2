package etcd

import (
	"context"
	"testing"
	"time"

	"flockd/backends"
)

// BenchmarkHold is one hold of a free key, over a connection that is open.
func BenchmarkHold(b *testing.B) {
	_, url := server(b)
	s := open(b, url)
	req := backends.Request{Key: b.Name(), Mode: backends.Exclusive, TTL: 5 * time.Minute}
	for b.Loop() {
		req.ID = backends.NewID()
		release(b, s, acquire(b, s, req))
	}
}

// BenchmarkConnect is the first request of a process, without its start.
func BenchmarkConnect(b *testing.B) {
	_, url := server(b)
	for b.Loop() {
		s := open(b, url)
		if _, err := s.Inspect(context.Background(), "x"); err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

// BenchmarkHandOver is what a waiter does from the release to its grant.
func BenchmarkHandOver(b *testing.B) {
	_, url := server(b)
	s, next := open(b, url), open(b, url)
	req := backends.Request{Key: b.Name(), ID: backends.NewID(), Mode: backends.Exclusive, TTL: 5 * time.Minute, Place: 15 * time.Second}
	lease := acquire(b, s, req)
	for b.Loop() {
		req.ID = backends.NewID()
		answer := held(b, next, req)
		done := make(chan error, 1)
		go func() { done <- next.Wait(context.Background(), answer) }()
		began := time.Now()
		release(b, s, lease)
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		woken := time.Now()
		lease = acquire(b, next, req)
		b.ReportMetric(float64(woken.Sub(began).Microseconds()), "wake-µs")
		b.ReportMetric(float64(time.Since(woken).Microseconds()), "grant-µs")
	}
}
