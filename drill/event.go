package drill

import (
	"encoding/json"
	"io"
	"time"

	"flockd/backends"
)

// Kind says what an event tells of.
type Kind string

const (
	Started Kind = "started" // a command lives; Alone says whether no other does
	Beat    Kind = "beat"    // it lives yet
	Ended   Kind = "ended"   // it doesn't, by the kernel's word
	Wrote   Kind = "wrote"   // a write with Token to the fenced file was admitted, after At and before Until
	Refused Kind = "refused" // it was refused: a larger token has been there
	InLine  Kind = "in-line" // a contender stands in line
	Struck  Kind = "struck"  // the leader has been disturbed
	Mended  Kind = "mended"  // it can go on
	Closing Kind = "closing" // the drill is over: from here on contenders are told to end
	Failed  Kind = "failed"  // a contender has given up: Class and Text
)

// Event is what was seen, and when.
type Event struct {
	At        time.Duration  `json:"at"` // a reading of the drill's clock
	Kind      Kind           `json:"kind"`
	Contender string         `json:"contender,omitempty"` // empty: the drill itself
	Token     backends.Token `json:"token,omitempty"`
	ID        string         `json:"id,omitempty"`    // of the hold
	PID       int            `json:"pid,omitempty"`   // of the command
	Alone     bool           `json:"alone,omitempty"` // with Started: it got the lock that all commands take
	Until     time.Duration  `json:"until,omitempty"`
	Class     string         `json:"class,omitempty"` // runner's
	Text      string         `json:"text,omitempty"`
}

// tell writes an event in one piece: a pipe has several writers.
func tell(to io.Writer, e Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = to.Write(append(line, '\n'))
	return err
}
