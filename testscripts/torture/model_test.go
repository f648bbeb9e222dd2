//go:build linux

package torture

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"flockd/backends"
	"flockd/testscripts/torture/trace"
)

// expire is an operation that nobody asks for: the store frees a hold whose lease
// has run out. What checks a history adds one for each hold that wasn't released,
// from the earliest instant at which the store may do it.
const expire trace.Op = "expire"

// input is an operation on one key.
type input struct {
	op  trace.Op
	key string
	id  string // who asks, or whose lease runs out
	// granted says, with a release, that the ID was told that it holds. Else it
	// may only have had a place.
	granted bool
	token   backends.Token // with expire: of the hold
}

// output is what the store said. An expire has none. A request whose outcome is
// unknown is no operation: see operations.
type output struct {
	outcome trace.Outcome
	token   backends.Token // of the one who asks, or with Held of the holder
	by      string         // with Held
}

// hold is the state of a key.
type hold struct {
	id    string         // of the holder; empty: the key is free
	token backends.Token // of the holder
	most  backends.Token // the largest that was granted
}

// free is the key after the hold has ended.
func (h hold) free() hold { return hold{most: h.most} }

// step is the state afterwards; ok is false if the store can't have answered so.
func (h hold) step(in input, out output) (after hold, ok bool) {
	holds := h.id == in.id
	switch in.op {
	case trace.Acquire:
		return h.acquire(in, out)
	case trace.Renew:
		if out.outcome == trace.OK {
			return h, holds && h.token == out.token
		}
		return h, !holds
	case trace.Release:
		switch {
		case out.outcome == trace.Lost:
			return h, !holds
		case holds:
			return h.free(), true
		}
		return h, !in.granted
	case expire:
		if holds && h.token == in.token {
			return h.free(), true
		}
		return h, true
	}
	return h, false
}

func (h hold) acquire(in input, out output) (after hold, ok bool) {
	switch out.outcome {
	case trace.OK:
		if h.id == "" {
			return hold{in.id, out.token, out.token}, out.token > h.most
		}
		return h, h.id == in.id && h.token == out.token
	case trace.Held:
		return h, h.id == out.by && h.token == out.token && h.id != in.id
	case trace.Next:
		return h, h.id == ""
	case trace.Lost:
		return h, h.id != in.id
	}
	return h, false
}

// model is the exclusive lock of each key, as porcupine wants it.
var model = porcupine.Model{
	Partition: byKey,
	Init:      func() any { return hold{} },
	Step: func(state, in, out any) (bool, any) {
		after, ok := state.(hold).step(in.(input), out.(output))
		return ok, after
	},
	DescribeOperation: func(in, out any) string {
		i, o := in.(input), out.(output)
		return fmt.Sprintf("%s %.8s %d: %s %d %.8s", i.op, i.id, i.token, o.outcome, o.token, o.by)
	},
}

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
