//go:build !no_redis

package all

import "flockd/backends/redis"

func init() {
	for _, scheme := range []string{"redis", "rediss", "redis+unix"} {
		openers[scheme] = redis.Open
	}
}
