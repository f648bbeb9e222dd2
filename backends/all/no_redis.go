//go:build no_redis

package all

func init() {
	for _, scheme := range []string{"redis", "rediss", "redis+unix"} {
		missing[scheme] = true
	}
}
