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
	h := backendtest.Harness{
		Open:   func(testing.TB) backends.Backend { return store },
		TTL:    10 * time.Minute,
		Has:    backendtest.All,
		Bubble: synctest.Test,
	}
	backendtest.Run(t, h)
	t.Run("RegisterStorm", func(t *testing.T) { backendtest.RegisterStorm(t, h) })
	t.Run("Compare", func(t *testing.T) { backendtest.Compare(t, h, mem.New()) })
}
