//go:build linux

package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"flockd/backends"
)

// gaps are the times without a leader, of changes by one means.
type gaps []time.Duration

func (g gaps) String() string {
	return fmt.Sprintf("%4d, %8v at the median, %8v at most", len(g), median(g).Round(time.Millisecond), slices.Max(append(g, 0)).Round(time.Millisecond))
}

// gapsOf are those of changes by means: from the last that an old command has shown of itself
// to the instant when the next one had the kernel's locks.
func gapsOf(changes []change, spans []*span) map[string]gaps {
	last := map[backends.Token]int64{}
	for _, s := range spans {
		last[s.token] = s.last
	}
	found := map[string]gaps{}
	for _, c := range changes {
		found[c.means] = append(found[c.means], time.Duration(c.next.began-last[c.old.token]))
	}
	return found
}

// summaryOf is a table of the means, and one of the stores.
func summaryOf(held []*election, seed uint64, failed bool) string {
	byMeans, byStore, all := map[string]gaps{}, map[string]gaps{}, gaps{}
	others := 0
	for n, e := range held {
		others += e.others
		for means, g := range e.gaps {
			byMeans[means] = append(byMeans[means], g...)
			byStore[grounds[n].name] = append(byStore[grounds[n].name], g...)
			all = append(all, g...)
		}
	}
	var text strings.Builder
	verdict := "no violation"
	if failed {
		verdict = "VIOLATIONS, see above"
	}
	fmt.Fprintf(&text, "%d changes of leader, and %d for no fault of ours, FLOCKD_TORTURE_SEED=%d: %s. From the end of a command to the begin of the next, at a TTL of %v:\n",
		len(all), others, seed, verdict, electionTTL)
	for _, table := range []map[string]gaps{byMeans, byStore, {"all": all}} {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			fmt.Fprintf(&text, "  %-24s %v\n", name, table[name])
		}
	}
	return text.String()
}
