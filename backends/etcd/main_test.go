package etcd

import (
	"flag"
	"os"
	"testing"
)

// The tests mostly wait for leases to end, so many of them can run at once.
const parallel = "24"

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", parallel)
	os.Exit(m.Run())
}
