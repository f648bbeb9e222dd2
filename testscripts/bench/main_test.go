//go:build linux

package bench

import (
	"flag"
	"os"
	"testing"
)

// The tests mostly wait, each for a server of its own, so all run at once.
const parallel = "10"

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", parallel)
	os.Exit(m.Run())
}
