package stored

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"time"

	"flockd/backends"
)

// Plain reports whether a prefix needs no quotes in any server, mode or script: it is up to
// 21 of a-z, 0-9 and _, the first no digit.
func Plain(prefix string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz_"
	return prefix != "" && len(prefix) <= 21 && strings.Contains(letters, prefix[:1]) && strings.Trim(prefix, letters+"0123456789") == ""
}

// Unused is the answer to who makes nothing, where what a step needs isn't there. What those of
// the register need may be all that is missing.
func Unused(address string, step Step) error {
	why := "no flockd has used it"
	if step.OfRegister() {
		why = "it has no register yet"
	}
	return &backends.UnusedError{Address: address, Why: why}
}

// A deadlock is over when one of the two has gone, so pauses begin with what a step takes.
const (
	pauseMin = time.Millisecond
	pauseMax = 100 * time.Millisecond
)

// Pause is between two tries of a step: about a quarter of the time that has passed since the
// first. It reports whether ctx lasts.
func Pause(ctx context.Context, passed time.Duration) bool {
	d := min(max(passed/4, pauseMin), pauseMax)
	select {
	case <-time.After(d/2 + rand.N(d)):
		return true
	case <-ctx.Done():
		return false
	}
}

// trouble says in plain words what is wrong with a server, or on the way to it.
type trouble struct {
	text  string
	cause error
}

func (e *trouble) Error() string { return e.text }

func (e *trouble) Is(target error) bool { return errors.Is(e.cause, target) }

// Trouble is an error for what may pass. It says nothing of its cause but what the text says.
func Trouble(cause error, format string, args ...any) error {
	return &trouble{fmt.Sprintf(format, args...), cause}
}

// IsTrouble reports whether err is one of Trouble's.
func IsTrouble(err error) bool { return errors.As(err, new(*trouble)) }

// Bare is what happened on the way to a server, without the addresses and system calls that Go
// and the libraries name.
func Bare(err error) error {
	var errno syscall.Errno
	var op *net.OpError
	switch {
	case errors.As(err, &errno):
		return errno
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("closed by the server")
	case errors.As(err, &op):
		return op.Err
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}
