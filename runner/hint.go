package runner

import (
	"context"
	"math/rand/v2"
	"time"

	"flockd/backends"
)

// await waits until it is time to ask again: the line may have moved, the claim
// in front has ended, the place needs keeping, or the wait is over.
func (l *line) await(ctx context.Context) {
	began := l.clock()
	longest := min(l.askAgain(), l.waitLeft())
	if l.held.RetryAfter > 0 {
		longest = min(longest, l.held.RetryAfter)
	}
	l.hint(ctx, longest)
	early := l.floor - (l.clock() - began)
	if early <= 0 {
		l.floor = hintFloorMin
		return
	}
	pause(ctx, min(early, l.waitLeft()))
	l.floor = min(2*l.floor, hintFloorMax)
}

// askAgain is how long to wait for the next question without a hint. Whoever isn't first in line
// hears of a new holder by asking alone, and must have asked once before that one's lease can end:
// all who want a key mostly ask for the same TTL.
func (l *line) askAgain() time.Duration {
	return min(askEvery, max(l.o.Request.TTL, askOften))
}

// hint returns when the store says that the line may have moved, and after longest.
func (l *line) hint(ctx context.Context, longest time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	waiter, ok := backends.As[backends.Waiter](l.o.Backend)
	if !ok {
		<-ctx.Done()
		return
	}
	held := l.held
	select {
	case <-ctx.Done():
	case a := <-call(func() (struct{}, error) { return struct{}{}, waiter.Wait(ctx, held) }):
		if a.err != nil {
			<-ctx.Done() // without hints, by asking every so often
		}
	}
}

func (l *line) backOff(ctx context.Context) {
	d := l.backoff/2 + rand.N(l.backoff/2)
	l.backoff = min(2*l.backoff, backoffMax)
	pause(ctx, min(d, l.patienceLeft()))
}
