//go:build linux

package failover

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"flockd/backends"
)

// ttl is long enough for a busy machine to keep its leases.
const ttl = 5 * time.Second

// rounds is how often each fault is inflicted where figures are wanted, 0 in other runs.
func rounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("FLOCKD_FAILOVER")
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("FLOCKD_FAILOVER=%q: not a number of rounds", text)
	}
	return n
}

// TestDisorder: what the tests rely on is found.
func TestDisorder(t *testing.T) {
	for name, c := range map[string]struct {
		events []event
		finds  int
	}{
		"in order":        {[]event{{1, "start", "web1", 7}, {2, "start", "web2", 8}}, 0},
		"a term again":    {[]event{{1, "start", "web1", 7}, {2, "start", "web2", 7}}, 1},
		"an old term":     {[]event{{1, "start", "web1", 7}, {2, "start", "web2", 8}, {3, "start", "web1", 7}}, 1},
		"two at once":     {[]event{{1, "start", "web1", 7}, {2, "start", "web2", 8}, {3, "overlap", "web2", 8}}, 1},
		"beside a zombie": {[]event{{1, "start", "web1", 7}, {2, "start", "web3", 9}, {3, "overlap", "web3", 9}}, 0},
		"writes beside":   {[]event{{1, "start", "web1", 7}, {2, "wrote", "web1", 7}, {3, "refused", "web1", 6}}, 0},
	} {
		if found := disorder(c.events, map[backends.Token]bool{9: true}); len(found) != c.finds {
			t.Errorf("%s: found %q", name, found)
		}
	}
}

// TestFailover: whatever happens to the leader, its command is dead before the next one's
// begins, under a larger term; what it writes later is refused, and it follows in the end.
func TestFailover(t *testing.T) {
	t.Parallel()
	n := rounds(t)
	var figures figures
	t.Run("stores", func(t *testing.T) {
		for _, s := range stores {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				l := newLab(t, s, ttl)
				inflicted := s.daily
				if n > 0 {
					inflicted = slices.Concat(s.daily, s.rare)
				}
				for range max(n, 1) {
					for _, f := range inflicted {
						figures.add(l, f, l.inflict(f))
					}
				}
				l.ordered()
			})
		}
	})
	if n > 0 {
		figures.judge(t)
	}
}

// figures are the changes of all stores, in the order in which each fault came first.
type figures struct {
	mu   sync.Mutex
	rows []*row
}

// row is one fault on one store.
type row struct {
	store, fault  string
	ttl, bar      time.Duration
	gaps, outages []time.Duration
}

// add takes a change, and holds it to a bound that a busy machine keeps.
func (s *figures) add(l *lab, f fault, c change) {
	l.Helper()
	l.Logf("%s: nobody led for %v; the next one %v after the fault", f.name, c.gap, c.outage)
	if most := 2*l.ttl + 10*time.Second; c.outage > most {
		l.Errorf("%s: the next one led after %v, more than %v", f.name, c.outage, most)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.rows, func(r *row) bool { return r.store == l.store.name && r.fault == f.name })
	if i < 0 {
		i = len(s.rows)
		s.rows = append(s.rows, &row{store: l.store.name, fault: f.name, ttl: l.ttl, bar: l.bar(f)})
	}
	s.rows[i].gaps = append(s.rows[i].gaps, c.gap)
	s.rows[i].outages = append(s.rows[i].outages, c.outage)
}

// judge prints all as a table of docs/failover.md, and wants the medians to keep their bars.
func (s *figures) judge(t *testing.T) {
	t.Helper()
	table := "\n| store | fault | rounds | TTL | nobody leads: median, most | next leader after: median, most | bar |\n| --- | --- | --- | --- | --- | --- | --- |\n"
	slices.SortFunc(s.rows, func(a, b *row) int { return a.place() - b.place() })
	for _, r := range s.rows {
		table += fmt.Sprintf("| %s | %s | %d | %v | %s | %s | %s |\n",
			r.store, r.fault, len(r.gaps), r.ttl, middleAndMost(r.gaps), middleAndMost(r.outages), seconds(r.bar))
		if m := median(r.outages); m > r.bar {
			t.Errorf("%s, %s: the next one led after %v, more than %v", r.store, r.fault, m, r.bar)
		}
	}
	t.Log(table)
}

// place is the row's in the table.
func (r *row) place() int {
	store := slices.IndexFunc(stores, func(s store) bool { return s.name == r.store })
	return store*len(faults) + slices.IndexFunc(faults, func(f fault) bool { return f.name == r.fault })
}

func middleAndMost(all []time.Duration) string {
	return seconds(median(all)) + ", " + seconds(slices.Max(all))
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + " s" }

func median(all []time.Duration) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}
