package redis

import (
	"regexp"
	"slices"
	"strconv"
	"testing"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
)

// What a hand-over costs a server, in requests, in bytes and in commands that its scripts
// call, is the same whatever the number of those who wait: for each grant, where all
// of them share.
func TestHandOverCostsTheSameInALongLine(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	for _, mode := range []backends.Mode{backends.Exclusive, backends.Shared, backends.Slots} {
		costs := map[string][]float64{}
		lines := []int{2, 20, 100, 500}
		for _, n := range lines {
			for what, cost := range handOver(t, s, mode, n) {
				costs[what] = append(costs[what], cost)
			}
		}
		for what, all := range costs {
			t.Logf("%s: %s %.0f with lines of %d", mode, what, all, lines)
			if least, most := slices.Min(all), slices.Max(all); least == 0 || most > 1.2*least {
				t.Errorf("%s: %.0f to %.0f %s", mode, least, most, what)
			}
		}
	}
}

// handOver releases a key for which n wait, and grants it to whose turn has come. It
// returns what that costs for each of them.
func handOver(t *testing.T, s *Store, mode backends.Mode, n int) map[string]float64 {
	t.Helper()
	key := string(mode) + strconv.Itoa(n)
	asks := func() backends.Request {
		r := queue(key)
		if r.Mode = mode; mode == backends.Slots {
			r.Slots = 2
		}
		return r
	}
	first := asks()
	if mode == backends.Shared {
		first.Mode = backends.Exclusive
	}
	lease := acquire(t, s, first)
	if mode == backends.Slots {
		acquire(t, s, asks())
	}
	var line []backends.Request
	for range n {
		line = append(line, asks())
		held(t, s, line[len(line)-1])
	}
	if mode != backends.Shared {
		line = line[:1]
	}
	before := spent(t, s)
	release(t, s, lease)
	for _, r := range line {
		acquire(t, s, r)
	}
	costs := map[string]float64{}
	for what, now := range spent(t, s) {
		costs[what] = (now - before[what]) / float64(len(line))
		if mode == backends.Shared { // whose release is one for all of them
			costs[what] = (now - before[what]) / float64(len(line)+1)
		}
	}
	return costs
}

var (
	counted = regexp.MustCompile(`(?m)^cmdstat_(\w+):calls=(\d+)`)
	carried = regexp.MustCompile(`(?m)^total_net_(?:in|out)put_bytes:(\d+)`)
)

// spent is what a server has been asked so far, INFO left out.
func spent(t *testing.T, s *Store) map[string]float64 {
	t.Helper()
	sum := map[string]float64{}
	for _, m := range carried.FindAllStringSubmatch(do(t, s, "INFO", "stats").(string), -1) {
		n, _ := strconv.ParseFloat(m[1], 64)
		sum["bytes"] += n
	}
	for _, m := range counted.FindAllStringSubmatch(do(t, s, "INFO", "commandstats").(string), -1) {
		n, _ := strconv.ParseFloat(m[2], 64)
		switch m[1] {
		case "info":
		case "eval", "rpush":
			sum["requests"] += n
			fallthrough
		default:
			sum["commands"] += n
		}
	}
	return sum
}
