package redis

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// What a watch costs: a look and a connection to begin with, nothing for a renewal, and
// another look for a ring.
func TestWatchCosts(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	a, b := open(t, "redis://"+server.Addr), open(t, "redis://"+server.Addr)
	r := request("a")
	lease := acquire(t, a, r)
	do(t, b, "PING")
	seen := watch(t, server.Addr)
	asked := func(what, want string) {
		t.Helper()
		requests := slices.DeleteFunc(seen(), func(r string) bool { return strings.Contains(strings.ToLower(r), `"info"`) })
		wantCommands(t, what, requests, want)
	}
	over := watching(t, a, lease)
	awaitInfo(t, b, "clients", "blocked_clients:1")
	asked("a watch that begins", "EVAL HELLO BLPOP")
	renew(t, a, lease)
	renew(t, a, lease)
	asked("a watch through two renewals", "EVAL EVAL")
	ask(t, b, r, resign)
	returns(t, over)
	asked("a watch that hears of a notice", "EVAL RPUSH PEXPIRE EVAL")
}
