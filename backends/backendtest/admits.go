package backendtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"flockd/backends"
)

// admission is one call of a [backends.Register]; without a token, a Highest.
type admission struct {
	token backends.Token
	down  bool
	after int // how many others certainly came before it
}

// admitted is the answer to it.
type admitted struct {
	stale   bool
	highest backends.Token // with stale, and of Highest; zero: none
}

// registered is the state of a register: the highest token, zero before the first, and how
// many have asked.
type registered struct {
	highest backends.Token
	asked   int
}

// register is the model that porcupine holds a history against.
var register = porcupine.Model{
	Init: func() any { return registered{} },
	Step: func(state, input, output any) (bool, any) {
		r, asked, got := state.(registered), input.(admission), output.(admitted)
		if r.asked < asked.after {
			return false, r
		}
		next := registered{r.highest, r.asked + 1}
		switch {
		case asked.token == 0:
			return got.highest == r.highest, next
		case asked.token < r.highest && !asked.down:
			return got == admitted{true, r.highest}, next
		}
		next.highest = asked.token
		return !got.stale, next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// history is what the clients of one resource have asked and heard. Its clock counts
// events, so that two instants never are the same.
type history struct {
	resource string
	clock    atomic.Int64

	mu  sync.Mutex
	ops []porcupine.Operation
}

func newHistory(resource string) *history { return &history{resource: resource} }

// ask asks r by the client, and notes it. Its error is one that is no answer.
func (h *history) ask(ctx context.Context, client int, r backends.Register, a admission) error {
	op := porcupine.Operation{ClientId: client, Input: a, Call: h.clock.Add(1)}
	var got admitted
	var err error
	switch {
	case a.token == 0:
		got.highest, err = r.Highest(ctx, h.resource)
	case a.down:
		err = r.Reset(ctx, h.resource, a.token, true)
	default:
		err = r.Admit(ctx, h.resource, a.token)
	}
	op.Return = h.clock.Add(1)
	var stale *backends.StaleError
	switch {
	case errors.As(err, &stale) && stale.Resource == h.resource && stale.Token == a.token:
		got = admitted{true, stale.Highest}
	case a.token == 0 && errors.Is(err, backends.ErrNotFound):
	case err != nil:
		return err
	}
	op.Output = got
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
	return nil
}

// rises notes of each call what it comes after in a history that sets nothing down: all that
// left or found a smaller token. So porcupine needn't try other orders, of which there are too
// many for any memory where a call has lasted for as long as some hundred others.
func (h *history) rises() {
	of := func(op porcupine.Operation) backends.Token {
		if got := op.Output.(admitted); got.stale || op.Input.(admission).token == 0 {
			return got.highest
		}
		return op.Input.(admission).token
	}
	slices.SortFunc(h.ops, func(a, b porcupine.Operation) int { return cmp.Compare(of(a), of(b)) })
	after := 0
	for i, op := range h.ops {
		if i > 0 && of(op) > of(h.ops[i-1]) {
			after = i
		}
		asked := op.Input.(admission)
		asked.after = after
		h.ops[i].Input = asked
	}
}

// refused counts the stale ones.
func (h *history) refused() (n int) {
	for _, op := range h.ops {
		if op.Output.(admitted).stale {
			n++
		}
	}
	return n
}

// check holds the history to the model.
func (h *history) check(t testing.TB) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !porcupine.CheckOperations(register, h.ops) {
		slices.SortFunc(h.ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		t.Errorf("no register answers like this; it begins with %+v", h.ops[:min(len(h.ops), 40)])
	}
}

// RegisterStorm has 20 clients ask one resource 10,000 times to admit a token, some of them
// stale, and now and then for the highest; then a few set it down as well. It holds all answers
// to those of one register.
func RegisterStorm(t *testing.T, h Harness) {
	past, took := registerStorm(t, h, 20, 10_000, false)
	past.rises()
	past.check(t)
	refused := past.refused()
	t.Logf("%d questions, %d of them stale, %.0f/s", len(past.ops), refused, float64(len(past.ops))/took.Seconds())
	if refused == 0 {
		t.Error("no token was stale")
	}
	past, _ = registerStorm(t, h, 5, 500, true)
	past.check(t)
}

// registerStorm asks a new resource, and says how long that took.
func registerStorm(t *testing.T, h Harness, clients, admits int, down bool) (*history, time.Duration) {
	past := newHistory(t.Name() + backends.NewID())
	var newest atomic.Int64
	newest.Store(int64(clients))
	var all sync.WaitGroup
	began := time.Now()
	for n := range clients {
		r := RegisterOf(t, h.Open(t))
		all.Go(func() {
			for i := range admits / clients {
				a := admission{token: backends.Token(newest.Add(1) - rand.Int64N(4))}
				asks := []admission{a}
				switch {
				case i%50 == 20:
					asks = append(asks, admission{})
				case i%10 == 4 && down:
					asks = append(asks, admission{token: a.token - 1, down: true})
				}
				for _, a := range asks {
					if err := past.ask(t.Context(), n, r, a); err != nil {
						t.Errorf("%+v: %v", a, err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	return past, time.Since(began)
}
