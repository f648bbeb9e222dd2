package stored

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"flockd/backends"
)

// quiet is a server that has no news, and counts the looks for them.
type quiet struct{ looks int }

func (q *quiet) Do(context.Context, Step, ...any) ([][]byte, error) {
	q.looks++
	return [][]byte{[]byte(`{"news": false}`)}, nil
}

func (*quiet) Close() error { return nil }

// What a hold costs by being watched over: a lease of the leader's is looked at twice a second, and
// one of some minutes, or an hour, every five.
func TestLooksAtAHold(t *testing.T) {
	for ttl, want := range map[time.Duration]int{3 * time.Second: 600, 15 * time.Second: 120, 5 * time.Minute: 12, time.Hour: 12} {
		synctest.Test(t, func(t *testing.T) {
			server := &quiet{}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Millisecond)
			defer cancel()
			New(server, time.Second).Watch(ctx, backends.Lease{Key: "a", ID: "b", TTL: ttl})
			if server.looks != want {
				t.Errorf("%d looks in a minute at a lease of %v, want %d", server.looks, ttl, want)
			}
		})
	}
}
