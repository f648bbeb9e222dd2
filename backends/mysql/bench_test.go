package mysql

import (
	"testing"

	"flockd/backends/backendtest/servers"
)

// BenchmarkRun is what a run asks of a server: a connection, a grant and a release.
func BenchmarkRun(b *testing.B) {
	url := urlOf(servers.MariaDB(b))
	b.ReportAllocs()
	for b.Loop() {
		s := open(b, url)
		release(b, s, acquire(b, s, request("a")))
		s.Close()
	}
}

// BenchmarkRenew is a renewal on a connection that is there.
func BenchmarkRenew(b *testing.B) {
	s := open(b, urlOf(servers.MariaDB(b)))
	lease := acquire(b, s, request("a"))
	b.ReportAllocs()
	for b.Loop() {
		renew(b, s, lease)
	}
}
