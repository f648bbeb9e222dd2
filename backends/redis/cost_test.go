package redis

import (
	"regexp"
	"strconv"
	"testing"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/backendtest/servers"
)

// What a hand-over costs a server, in requests, in bytes and in commands that its scripts
// call, is the same whatever the number of those who wait: for each grant, where all
// of them share.
func TestHandOverCostsTheSameInALongLine(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+servers.Redis(t).Addr)
	backendtest.HandOverCosts(t, s, 1.2, func(handOver func(backends.Backend)) map[string]float64 {
		before := spent(t, s)
		handOver(s)
		costs := spent(t, s)
		for what := range costs {
			costs[what] -= before[what]
		}
		return costs
	})
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
