package torture

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"flockd/backends"
	"flockd/testscripts/torture/trace"
)

// expire is an operation that nobody asks for: the store frees a hold whose lease
// has run out. What checks a history adds one for each hold that wasn't released,
// from the earliest instant at which the store may do it to the end of time.
const expire trace.Op = "expire"

// input is an operation on one key.
type input struct {
	op  trace.Op
	key string
	id  string // who asks, or whose lease runs out
	// granted says, with a release, that the ID was told that it holds. Else it
	// may only have had a place.
	granted bool
	token   backends.Token // with expire: of the hold; zero: of one whose grant nobody was told
}

// output is what the store said. An expire has none.
type output struct {
	outcome trace.Outcome
	token   backends.Token // of the one who asks, or with Held of the holder
	by      string         // with Held
}

// hold is the state of a key.
type hold struct {
	id    string         // of the holder; empty: the key is free
	token backends.Token // of the holder; zero: granted in an answer that was lost
	most  backends.Token // the largest that was seen
}

// free is the key after the hold has ended.
func (h hold) free() hold { return hold{most: h.most} }

// known is h when its holder is seen to have token. ok is false if it can't.
func (h hold) known(token backends.Token) (_ hold, ok bool) {
	switch h.token {
	case token:
		return h, true
	case 0:
		return hold{h.id, token, token}, token > h.most
	}
	return h, false
}

// step returns each state that the key may be in afterwards; none: the store can't
// have answered so.
func (h hold) step(in input, out output) []hold {
	switch in.op {
	case trace.Acquire:
		return h.acquire(in, out)
	case trace.Renew:
		next, ok := h.known(out.token)
		switch {
		case out.outcome == trace.OK:
			return only(next, ok && h.id == in.id)
		case out.outcome == trace.Lost:
			return only(h, h.id != in.id)
		}
		return []hold{h} // at most a longer lease, which expire leaves room for
	case trace.Release:
		return h.release(in, out)
	case expire:
		if h.id == in.id && h.token == in.token {
			return []hold{h.free()}
		}
		return []hold{h}
	}
	return nil
}

func (h hold) acquire(in input, out output) []hold {
	switch out.outcome {
	case trace.OK:
		if h.id == "" {
			h = hold{id: in.id, most: h.most}
		}
		next, ok := h.known(out.token)
		return only(next, ok && h.id == in.id)
	case trace.Held:
		next, ok := h.known(out.token)
		return only(next, ok && h.id == out.by && h.id != in.id)
	case trace.Next:
		return only(h, h.id == "")
	case trace.Lost:
		return only(h, h.id != in.id)
	case trace.Refused:
		return []hold{h}
	}
	if h.id == "" {
		return []hold{h, {id: in.id, most: h.most}}
	}
	return []hold{h}
}

func (h hold) release(in input, out output) []hold {
	holds := h.id == in.id
	switch {
	case out.outcome == trace.OK && holds:
		return []hold{h.free()}
	case out.outcome == trace.OK:
		return only(h, !in.granted)
	case out.outcome == trace.Lost:
		return only(h, !holds)
	case out.outcome == trace.Unknown && holds:
		return []hold{h, h.free()}
	}
	return []hold{h}
}

func only(h hold, possible bool) []hold {
	if possible {
		return []hold{h}
	}
	return nil
}

// model is the exclusive lock of each key, as porcupine wants it. An answer that
// was lost leaves more than one state possible.
var model = (&porcupine.NondeterministicModel{
	Partition: byKey,
	Init:      func() []any { return []any{hold{}} },
	Step: func(state, in, out any) []any {
		var next []any
		for _, h := range state.(hold).step(in.(input), out.(output)) {
			next = append(next, h)
		}
		return next
	},
	DescribeOperation: func(in, out any) string {
		i, o := in.(input), out.(output)
		return fmt.Sprintf("%s %.8s: %s %d %.8s", i.op, i.id, o.outcome, o.token, o.by)
	},
	DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
}).ToModel()

func byKey(history []porcupine.Operation) (parts [][]porcupine.Operation) {
	place := map[string]int{}
	for _, op := range history {
		key := op.Input.(input).key
		if _, ok := place[key]; !ok {
			place[key] = len(parts)
			parts = append(parts, nil)
		}
		parts[place[key]] = append(parts[place[key]], op)
	}
	return parts
}
