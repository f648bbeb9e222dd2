package mem_test

import (
	"testing"
	"testing/synctest"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/mem"
)

func TestConformance(t *testing.T) {
	store := mem.New()
	backendtest.Run(t, backendtest.Harness{
		Open:   func(testing.TB) backends.Backend { return store },
		TTL:    10 * time.Minute,
		Has:    backendtest.All,
		Bubble: synctest.Test,
	})
}
