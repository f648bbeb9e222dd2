//go:build cgo && linux

package sqlite

import (
	"fmt"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/mem"
)

func TestConformance(t *testing.T) {
	path := t.TempDir() + "/flockd.db"
	h := backendtest.Harness{
		Open: func(t testing.TB) backends.Backend { return open(t, path) },
		TTL:  time.Second,
		// How late a busy machine may be; the store itself counts in nanoseconds.
		Granularity: 200 * time.Millisecond,
		Has:         backendtest.All &^ backendtest.Registers,
		Newer: func(t testing.TB, key string) {
			s := open(t, path)
			acquire(t, s, request(key))
			script(t, path, fmt.Sprintf("UPDATE claims SET v = %d WHERE key = '%s'", backends.RecordVersion+1, key))
		},
	}
	backendtest.Run(t, h)
	t.Run("Compare", func(t *testing.T) { backendtest.Compare(t, h, mem.New()) })
}
