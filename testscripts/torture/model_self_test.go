//go:build linux

package torture

import (
	"fmt"
	"testing"

	"github.com/anishathalye/porcupine"

	"flockd/backends"
	"flockd/testscripts/torture/trace"
)

// at is an operation of id from call to back.
func at(op trace.Op, id string, call, back int64, outcome trace.Outcome, token backends.Token) porcupine.Operation {
	in := input{op: op, key: "k", id: id, granted: op == trace.Release}
	if op == expire {
		in.token, token = token, 0
	}
	return porcupine.Operation{Input: in, Call: call, Output: output{outcome: outcome, token: token}, Return: back}
}

func heldBy(id, holder string, call, back int64, token backends.Token) porcupine.Operation {
	op := at(trace.Acquire, id, call, back, trace.Held, token)
	op.Output = output{outcome: trace.Held, token: token, by: holder}
	return op
}

func inLine(op porcupine.Operation) porcupine.Operation {
	in := op.Input.(input)
	in.granted = false
	op.Input = in
	return op
}

func TestModel(t *testing.T) {
	granted := at(trace.Acquire, "a", 0, 5, trace.OK, 1)
	runsOut := at(expire, "a", 100, never, "", 1)
	for _, c := range []struct {
		name    string
		history []porcupine.Operation
		want    bool
	}{
		{"handed over by a release", []porcupine.Operation{granted,
			at(trace.Release, "a", 10, 12, trace.OK, 0), at(trace.Acquire, "b", 11, 15, trace.OK, 2)}, true},
		{"two holders", []porcupine.Operation{granted, at(trace.Acquire, "b", 11, 15, trace.OK, 2)}, false},
		{"granted after the lease", []porcupine.Operation{granted, runsOut, at(trace.Acquire, "b", 90, 120, trace.OK, 2)}, true},
		{"granted before the lease ends", []porcupine.Operation{granted, runsOut, at(trace.Acquire, "b", 60, 90, trace.OK, 2)}, false},
		{"a token that falls", []porcupine.Operation{at(trace.Acquire, "a", 0, 5, trace.OK, 7),
			at(trace.Release, "a", 10, 12, trace.OK, 0), at(trace.Acquire, "b", 13, 15, trace.OK, 1)}, false},
		{"a token twice", []porcupine.Operation{granted,
			at(trace.Release, "a", 10, 12, trace.OK, 0), at(trace.Acquire, "b", 13, 15, trace.OK, 1)}, false},
		{"asked again by the holder", []porcupine.Operation{granted, at(trace.Acquire, "a", 6, 7, trace.OK, 1)}, true},
		{"another token for the same hold", []porcupine.Operation{granted, at(trace.Acquire, "a", 6, 7, trace.OK, 2)}, false},
		{"a late release frees the next hold", []porcupine.Operation{granted, // as with etcd-io/etcd#22082
			at(expire, "a", 6, never, "", 1), at(trace.Acquire, "b", 9, 10, trace.OK, 2),
			at(trace.Release, "a", 11, 12, trace.OK, 0), at(trace.Acquire, "c", 13, 14, trace.OK, 3)}, false},
		{"renewed while another holds", []porcupine.Operation{granted, runsOut,
			at(trace.Acquire, "b", 105, 110, trace.OK, 2), at(trace.Renew, "a", 120, 121, trace.OK, 1)}, false},
		{"revived, taken by nobody", []porcupine.Operation{granted, runsOut,
			at(trace.Renew, "a", 120, 121, trace.Lost, 1), at(trace.Renew, "a", 130, 131, trace.OK, 1)}, false},
		{"lost while held", []porcupine.Operation{granted, at(trace.Renew, "a", 20, 21, trace.Lost, 1)}, false},
		{"in the way though free", []porcupine.Operation{granted,
			at(trace.Release, "a", 6, 7, trace.OK, 0), heldBy("b", "a", 8, 9, 1)}, false},
		{"in the way under another token", []porcupine.Operation{granted, heldBy("b", "a", 8, 9, 2)}, false},
		{"the next in line hasn't taken its turn", []porcupine.Operation{granted,
			at(trace.Release, "a", 6, 7, trace.OK, 0), at(trace.Acquire, "b", 8, 9, trace.Next, 0)}, true},
		{"said to be free while held", []porcupine.Operation{granted, at(trace.Acquire, "b", 8, 9, trace.Next, 0)}, false},
		{"a place given up", []porcupine.Operation{granted, heldBy("b", "a", 8, 9, 1),
			inLine(at(trace.Release, "b", 10, 11, trace.OK, 0))}, true},
	} {
		if got := porcupine.CheckOperations(model, c.history); got != c.want {
			t.Errorf("%s: possible = %v", c.name, got)
		}
	}
}

// One long history, with more holds than a key has in any storm.
func TestModelAcceptsALongHistory(t *testing.T) {
	var history []porcupine.Operation
	now := int64(0)
	for token := range backends.Token(2000) {
		id := fmt.Sprint(token)
		history = append(history, at(trace.Acquire, id, now, now+8, trace.OK, token+1))
		for waiter := range 4 {
			history = append(history, heldBy(fmt.Sprint(id, waiter), id, now+9, now+11, token+1))
		}
		history = append(history, at(trace.Renew, id, now+12, now+13, trace.OK, token+1),
			at(trace.Release, id, now+20, now+22, trace.OK, 0), at(expire, id, now+112, never, "", token+1))
		now += 23
	}
	if !porcupine.CheckOperations(model, history) {
		t.Error("a proper history was refused")
	}
}
