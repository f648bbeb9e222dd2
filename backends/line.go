package backends

import (
	"iter"
	"time"
)

// State is where a claim stands.
type State string

const (
	Waiting State = "waiting" // in line
	Holding State = "holding" // granted
	Cooling State = "cooling" // its holder ended, its MinHold has not
)

// Claim is one entry of a line. Times are by the store's clock, zero where the
// store can't tell, and for display only.
type Claim struct {
	ID      string    `json:"id"`
	State   State     `json:"state"`
	Mode    Mode      `json:"mode"`
	Slots   int       `json:"slots,omitempty"`
	Slot    int       `json:"slot,omitempty"`
	Token   Token     `json:"token,omitempty"` // zero while waiting
	Owner   Owner     `json:"owner"`
	Asked   time.Time `json:"asked,omitzero"`
	Granted time.Time `json:"granted,omitzero"`
	Renewed time.Time `json:"renewed,omitzero"`
	Expires time.Time `json:"expires,omitzero"` // when the claim ends unless it is renewed or asked for again
	Notice  Notice    `json:"notice,omitzero"`

	// TTL is, with Holding, that of a renewal which leaves the lease as long as it is. It isn't only
	// for display.
	TTL time.Duration `json:"ttl,omitempty"`
}

// Fits reports whether a waiting claim c may hold beside the live claims in
// front of it, waiting ones included. This is the whole rule of the line:
// Exclusive fits when nobody is in front; Shared when only Shared are; Slots
// when fewer than c.Slots are, all of them Slots of the same number. A claim
// of another family or another number waits its turn.
func Fits(c Claim, front []Claim) bool {
	for _, f := range front {
		if c.Mode == Exclusive || f.Mode != c.Mode || f.Slots != c.Slots {
			return false
		}
	}
	return c.Mode != Slots || len(front) < c.Slots
}

// Status is what a store knows of one key.
type Status struct {
	Key         string    `json:"key"`
	AsOf        time.Time `json:"as_of"`                  // the store's clock when it was read
	Line        []Claim   `json:"line"`                   // live claims, first in line first
	Last        *Run      `json:"last,omitempty"`         // the last run that ended; nil: none known
	LastSuccess *Run      `json:"last_success,omitempty"` // the last run that succeeded; nil: none known
}

// Each is a [Backend.List] of the keys that names returns: their statuses by inspect,
// one at a time, without those that have neither a line nor a last run any more.
func Each(names func() ([]string, error), inspect func(key string) (Status, error)) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		keys, err := names()
		if err != nil {
			yield(Status{}, err)
			return
		}
		for _, key := range keys {
			status, err := inspect(key)
			if err == nil && len(status.Line) == 0 && status.Last == nil {
				continue
			}
			if !yield(status, err) || err != nil {
				return
			}
		}
	}
}

// Run is one run of a command under a hold, as its release recorded it.
type Run struct {
	Owner Owner     `json:"owner"`
	Token Token     `json:"token"`
	Start time.Time `json:"start"` // of the hold, by the store's clock
	End   time.Time `json:"end"`   // likewise
	Class string    `json:"class"`
	Exit  int       `json:"exit"` // means nothing with class Broken

	Notice Notice `json:"notice,omitzero"` // who had asked for the key, or removed the hold
}
