//go:build !race

package guard

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// What a guard is told for days doesn't make it grow.
func TestGuardKeepsItsSize(t *testing.T) {
	c := begin(t)
	g := c.guarded(c.orders(Never), "")
	proc := g.atWork(t)
	for n := range 50_000 {
		if err := g.Tell(c.orders(Never - time.Duration(n) - 1)); err != nil {
			t.Fatal(err)
		}
	}
	const most = 1500 // kB
	if kB := privateMemory(t, proc); kB > most {
		t.Errorf("%d kB", kB)
	}
	g.isEnded(t)
}

func privateMemory(t *testing.T, proc string) (kB int) {
	text, err := os.ReadFile(proc + "/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var n int
		if _, err := fmt.Sscanf(line, "Private_Clean: %d", &n); err == nil {
			kB += n
		} else if _, err := fmt.Sscanf(line, "Private_Dirty: %d", &n); err == nil {
			kB += n
		}
	}
	t.Logf("%d kB", kB)
	return kB
}
