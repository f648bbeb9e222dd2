package runner

import (
	"errors"
	"fmt"

	"flockd/backends"
)

// LostError says that a hold ended before its command did, or had to be taken
// for ended. errors.Is(err, backends.ErrLost) is true.
type LostError struct {
	Key    string
	Token  backends.Token
	Notice backends.Notice // set if somebody asked for the key, or has removed the hold: Notice.Force
	Err    error           // backends.ErrLost by the store's word, ErrExpiring by our clock; nil where the hold was asked for
}

// Error says why, and leaves the key to whoever prints it.
func (e *LostError) Error() string {
	n := e.Notice
	if n == (backends.Notice{}) {
		return e.Err.Error()
	}
	text := "asked to stop"
	switch {
	case n.Force:
		text = "broken"
	case n.Kind == backends.Resign:
		text = "asked to resign"
	}
	text += fmt.Sprintf(" by %s@%s", n.By.User, n.By.Host)
	if n.Reason != "" {
		text += ": " + n.Reason
	}
	return text
}

func (e *LostError) Unwrap() error { return e.Err }

func (e *LostError) Is(target error) bool { return target == backends.ErrLost }

// WasAsked reports whether a hold ended because somebody asked for the key: its lease could
// have been kept.
func WasAsked(why error) bool {
	var lost *LostError
	return errors.As(why, &lost) && lost.Err == nil
}
