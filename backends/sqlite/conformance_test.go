//go:build cgo && linux

package sqlite

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/mem"
)

func TestConformance(t *testing.T) {
	dir := t.TempDir()
	// One a test: a bell may wake for nothing, where a place is taken whose number another
	// test's had just before, and then nobody can say who must sleep.
	path := func(t testing.TB) string { return filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "-")+".db") }
	h := backendtest.Harness{
		Open: func(t testing.TB) backends.Backend { return open(t, path(t)) },
		TTL:  time.Second,
		// How late a busy machine may be; the store itself counts in nanoseconds.
		Granularity: 200 * time.Millisecond,
		Has:         backendtest.All,
		Newer: func(t testing.TB, key string) {
			s := open(t, path(t))
			acquire(t, s, request(key))
			script(t, path(t), fmt.Sprintf("UPDATE claims SET v = %d WHERE key = '%s'", backends.RecordVersion+1, key))
		},
	}
	backendtest.Run(t, h)
	storm := h // whose 20 clients have the file locked all the time, so that one may wait for long
	storm.Open = func(t testing.TB) backends.Backend { return open(t, path(t)+"?timeout=1m") }
	t.Run("RegisterStorm", func(t *testing.T) { backendtest.RegisterStorm(t, storm) })
	t.Run("Compare", func(t *testing.T) { backendtest.Compare(t, h, mem.New()) })
}
