package runner

import (
	"context"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
	"flockd/runner/proof"
)

// What a command has left is not told that the hold stands, which is there until the store has
// been told that it ends: neither by flockd nor, since that answers, by the store.
func TestAHoldThatIsGivenBackIsNotProven(t *testing.T) {
	t.Parallel()
	b, q := mem.New(), proof.Question{Key: "k", ID: backends.NewID()}
	var whileGivenBack proof.Answer
	f := &faulty{Backend: b, release: func(ctx context.Context, key, id string, o backends.Outcome) error {
		var err error
		if whileGivenBack, err = Ask(ctx, q); err != nil {
			t.Error(err)
		}
		return b.Release(ctx, key, id, o)
	}}
	o := Options{Backend: f, Request: request(q.ID), Grace: DefaultGrace, Log: quiet}
	clock := clockOf(b.Traits().Clock)
	fake := newFake()
	fake.now = clock
	r := &run{o: o.withDefaults(), clock: clock, tick: tick, plant: nobody, serve: proof.Serve, start: func(launch) (process, error) {
		q.Token = int64(tokenOf(t, b, q.ID))
		fake.end(Exit{Started: time.Now()})
		return fake, nil
	}}
	if res := r.run(t.Context()); res.Class != Finished {
		t.Errorf("%+v", res)
	}
	if whileGivenBack.State != proof.Stopping || whileGivenBack.Why != errEnded.Error() {
		t.Errorf("%+v", whileGivenBack)
	}
	if a, err := Ask(t.Context(), q); err != proof.ErrNobody {
		t.Errorf("after that: %+v, %v", a, err)
	}
}

func tokenOf(t *testing.T, b *mem.Store, id string) backends.Token {
	status, err := b.Inspect(t.Context(), "k")
	if err != nil || len(status.Line) != 1 || status.Line[0].ID != id {
		t.Fatalf("%+v, %v", status, err)
	}
	return status.Line[0].Token
}
