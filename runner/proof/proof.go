// Package proof is how a command asks the flockd that runs it whether its hold stands: through
// a socket of the hold's own, which has a name but no file, and is there for as long as
// the hold is kept. Only who names the hold with its token is answered. It knows no store.
//
// The name lives in a network namespace. Where there is none, as in a container, after
// unshare --net and on systems other than Linux, nobody answers.
package proof

import (
	"errors"
	"fmt"
	"time"
)

// AnsweredWithin is how long an answer is waited for.
const AnsweredWithin = 5 * time.Second

// Question asks how a hold stands.
type Question struct {
	Key   string        `json:"key"`
	ID    string        `json:"id"`
	Token int64         `json:"token"`
	Least time.Duration `json:"least,omitempty"` // what is to be left of the lease: see Answer.Fits
}

// State is how a hold stands.
type State string

const (
	Held     State = "held"     // proven by a renewal that was sent after the question
	Lost     State = "lost"     // it is gone, or has to be taken for gone
	Stopping State = "stopping" // it may be there yet, but its command has ended or is being stopped, or somebody asks for the key
	Unknown  State = "unknown"  // nobody can tell
	Other    State = "other"    // key, ID and token aren't those of one hold
)

// Answer is how a hold stands.
type Answer struct {
	State State  `json:"state"`
	Why   string `json:"why,omitempty"` // with Lost, Stopping and Unknown

	// With Held:
	Lasts     time.Duration `json:"lasts,omitempty"`     // how long before nobody else can be granted the key, counted from before the question; from now where Ask returns it
	Monotonic bool          `json:"monotonic,omitempty"` // that counts CLOCK_MONOTONIC, else CLOCK_BOOTTIME
	TTL       time.Duration `json:"ttl,omitempty"`       // as granted
	Never     bool          `json:"never,omitempty"`     // Question.Least can't be left of this TTL
	Fits      time.Duration `json:"fits,omitempty"`      // a TTL of which it is, where the answer takes AnsweredWithin; zero: this one does
}

// ErrNobody says that no flockd that can be trusted keeps the hold here.
var ErrNobody = errors.New("no flockd that keeps the hold answers here")

// SilentError says that the flockd that keeps the hold gives no answer.
type SilentError struct {
	PID int // 0: not known
}

func (e *SilentError) Error() string {
	if e.PID == 0 {
		return "the flockd that keeps the hold doesn't answer"
	}
	return fmt.Sprintf("the flockd that keeps the hold (pid %d) doesn't answer", e.PID)
}
