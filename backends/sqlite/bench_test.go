//go:build cgo && linux

package sqlite

import (
	"testing"

	"flockd/backends"
)

// BenchmarkRun is what one uncontended run asks of the store, opening included.
func BenchmarkRun(b *testing.B) {
	path := b.TempDir() + "/flockd.db"
	open(b, path)
	for b.Loop() {
		u, _ := backends.ParseURL("sqlite:" + path)
		store, err := Open(b.Context(), u)
		if err != nil {
			b.Fatal(err)
		}
		s := store.(*Store)
		r := request("k")
		acquire(b, s, r)
		if err := s.Release(b.Context(), r.Key, r.ID, backends.Outcome{Class: "finished", Success: true}); err != nil {
			b.Fatal(err)
		}
		s.db.Close()
	}
}
