package stored

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"flockd/backends"
)

// answer is what a step came to. Each step has its part of it.
type answer struct {
	Is   string `json:"is"`
	What string `json:"what"` // of a newer record
	V    int    `json:"v"`    // likewise

	Now     int64         `json:"now"`
	Token   int64         `json:"token"`
	Granted int64         `json:"granted"`
	Mode    backends.Mode `json:"mode"`
	Slot    int           `json:"slot"`
	Run     binary        `json:"run"`
	Keep    int64         `json:"keep"`
	Made    flag          `json:"made"` // the key's row is new
	Waiters int           `json:"waiters"`
	Ahead   int           `json:"ahead"`
	Retry   int64         `json:"retry"`
	Notice  notice        `json:"notice"`

	Last    *run  `json:"last"`
	Success *run  `json:"success"`
	Place   int64 `json:"place"` // of the last of the entries
	N       int   `json:"n"`     // how many were looked at
	News    flag  `json:"news"`
	Front   *int  `json:"front"` // how many wait in front of a place, 50 at most; nil: not told
}

// claim is a row of the table claims.
type claim struct {
	V       int            `json:"v"`
	ID      string         `json:"id"`
	State   backends.State `json:"state"`
	Mode    backends.Mode  `json:"mode"`
	Slots   int            `json:"slots"`
	Slot    int            `json:"slot"`
	Token   backends.Token `json:"token"`
	Owner   owner          `json:"owner"`
	Asked   int64          `json:"asked"`
	Granted int64          `json:"granted"`
	Renewed int64          `json:"renewed"`
	Expires int64          `json:"expires"` // of the place or the lease
	Kept    int64          `json:"kept"`    // grant + min-hold: taken until then, even if the lease ends
	Notice  notice         `json:"notice"`
}

// public is the claim as others see it at now.
func (c claim) public(now int64) backends.Claim {
	state := c.State
	if state == backends.Holding && c.Expires <= now {
		state = backends.Cooling // its holder is gone without a word
	}
	var ttl time.Duration
	if state == backends.Holding {
		ttl = time.Duration(c.Expires-c.Renewed) * time.Microsecond
	}
	return backends.Claim{
		ID: c.ID, State: state, Mode: c.Mode, Slots: c.Slots, Slot: c.Slot, Token: c.Token, Owner: backends.Owner(c.Owner),
		Asked: instant(c.Asked), Granted: instant(c.Granted), Renewed: instant(c.Renewed),
		Expires: instant(max(c.Expires, c.Kept)), Notice: backends.Notice(c.Notice), TTL: ttl,
	}
}

// run is what is kept of a run that ended.
type run struct {
	V      int            `json:"v"`
	Owner  owner          `json:"owner"`
	Token  backends.Token `json:"token"`
	Start  int64          `json:"start"`
	End    int64          `json:"end"`
	Class  string         `json:"class"`
	Exit   int            `json:"exit"`
	Notice notice         `json:"notice"`
}

func (r *run) public() *backends.Run {
	if r == nil {
		return nil
	}
	return &backends.Run{
		Owner: backends.Owner(r.Owner), Token: r.Token, Start: instant(r.Start), End: instant(r.End),
		Class: r.Class, Exit: r.Exit, Notice: backends.Notice(r.Notice),
	}
}

// entry is a row of the table ledger.
type entry struct {
	V       int            `json:"v"`
	Run     binary         `json:"run"`
	Token   backends.Token `json:"token"`
	Owner   owner          `json:"owner"`
	At      int64          `json:"at"`
	Forgets int64          `json:"forgets"` // 0: never
}

func (e entry) public() backends.Entry {
	return backends.Entry{
		Run: string(e.Run), Token: e.Token, Owner: backends.Owner(e.Owner), At: instant(e.At), Forgets: instant(e.Forgets),
	}
}

// name is a key.
type name struct {
	Key binary `json:"key"`
}

// binary is what was answered as hexadecimal digits.
type binary string

func (b *binary) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	*b = binary(raw)
	return err
}

// flag is a boolean, or the number that a server has for it.
type flag bool

func (f *flag) UnmarshalJSON(text []byte) error {
	*f = string(text) == "true" || string(text) == "1"
	return nil
}

// owner and notice are JSON in a text, of which what can't be read is left out: nothing is
// decided by it.
type (
	owner  backends.Owner
	notice backends.Notice
)

func (o *owner) UnmarshalText(text []byte) error {
	json.Unmarshal(text, (*backends.Owner)(o))
	return nil
}

func (n *notice) UnmarshalText(text []byte) error {
	json.Unmarshal(text, (*backends.Notice)(n))
	return nil
}

// do does a step on a key, and returns its answer and the rows that it lists.
func (s *Store) do(ctx context.Context, step Step, key string, args ...any) (a answer, listed [][]byte, err error) {
	rows, err := s.server.Do(ctx, step, append([]any{[]byte(key)}, args...)...)
	if err != nil {
		return a, nil, err
	}
	if len(rows) == 0 {
		return a, nil, fmt.Errorf("the step %s had no answer", step)
	}
	if err := json.Unmarshal(rows[0], &a); err != nil {
		return a, nil, fmt.Errorf("the answer of the step %s can't be read: %w", step, err)
	}
	return a, rows[1:], a.refusal(key)
}

// read reads the rows that a step lists.
func read[T claim | entry | name](listed [][]byte, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	all := make([]T, len(listed))
	for i, row := range listed {
		if err := json.Unmarshal(row, &all[i]); err != nil {
			return nil, fmt.Errorf("a row of the answer can't be read: %w", err)
		}
	}
	return all, nil
}

// refusal is an answer that no step goes on with.
func (a answer) refusal(key string) error {
	switch a.Is {
	case "newer":
		return backends.Refuse("use the newer flockd here as well",
			"the %s of %q was written by a newer flockd (record version %d, this one knows %d)",
			a.What, key, a.V, backends.RecordVersion)
	case "clock":
		return backends.Refuse("set the clock of the database server", "the token of %q has reached 2^53", key)
	}
	return nil
}

// gone is the answer to what is asked for an ID that has ended.
func (a answer) gone() error {
	if n := backends.Notice(a.Notice); n != (backends.Notice{}) {
		return &backends.RemovedError{Notice: n}
	}
	return backends.ErrLost
}
