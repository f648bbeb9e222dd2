package guard

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"flockd/runner/tree"
)

// Never as Orders.Kill sets no deadline.
const Never time.Duration = math.MaxInt64

// Orders are all that a guard goes by. Each replaces the one before.
type Orders struct {
	Kill      time.Duration // the reading of the clock at which the tree has to be killed
	Monotonic bool          // the clock is CLOCK_MONOTONIC, else CLOCK_BOOTTIME
	Tree      tree.Identity
	Over      bool // nobody is left of the tree whom the guard is to kill
}

// The kinds of a message. Each message is its kind, its length in four bytes, and
// that many bytes.
const (
	kindOrders   = 'o'
	kindLegacy   = 'l' // what to start when flockd was killed: see Start
	kindTerminal = 't' // what to give back when the tree was killed
)

const headLength = 5

func message(kind byte, body []byte) []byte {
	m := append(make([]byte, 0, headLength+len(body)), kind)
	m = binary.LittleEndian.AppendUint32(m, uint32(len(body)))
	return append(m, body...)
}

// cut takes a message off the front of what was read; not ok: it isn't whole.
func cut(text []byte) (kind byte, body, rest []byte, ok bool) {
	if len(text) < headLength {
		return 0, nil, text, false
	}
	n := binary.LittleEndian.Uint32(text[1:])
	if uint64(len(text)-headLength) < uint64(n) {
		return 0, nil, text, false
	}
	return text[0], text[headLength : headLength+n], text[headLength+n:], true
}

// encode is the body of a message.
func (o Orders) encode() []byte {
	var b []byte
	for _, n := range []uint64{
		uint64(o.Kill), flag(o.Monotonic), o.Tree.Limit, uint64(o.Tree.Leader), o.Tree.Born, flag(o.Tree.Leads), flag(o.Over),
	} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return append(b, o.Tree.ID...)
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

var errOrders = errors.New("orders that can't be read")

// decode reads orders. An ID that was in those before isn't allocated again.
func decode(body []byte, before Orders) (o Orders, err error) {
	var n [7]uint64
	if len(body) < 8*len(n) {
		return o, errOrders
	}
	id := before.Tree.ID
	if text := body[8*len(n):]; string(text) != id {
		id = string(text)
	}
	for i := range n {
		n[i] = binary.LittleEndian.Uint64(body[8*i:])
	}
	return Orders{
		Kill:      time.Duration(n[0]),
		Monotonic: n[1] == 1,
		Over:      n[6] == 1,
		Tree:      tree.Identity{Limit: n[2], Leader: int(n[3]), Born: n[4], Leads: n[5] == 1, ID: id},
	}, nil
}
