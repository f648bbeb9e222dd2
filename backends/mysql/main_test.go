package mysql

import (
	"flag"
	"os"
	"testing"
)

// The tests mostly wait for leases to end, so several can run at once, whatever the
// machine.
const parallel = "8"

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", parallel)
	os.Exit(m.Run())
}
