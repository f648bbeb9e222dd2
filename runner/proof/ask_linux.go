package proof

import (
	"context"
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

const askAgain = 50 * time.Millisecond

// Ask asks the flockd that keeps the hold. clock reads CLOCK_MONOTONIC or CLOCK_BOOTTIME.
// Errors: ErrNobody, a *SilentError, or ctx's.
func Ask(ctx context.Context, q Question, clock func(monotonic bool) time.Duration) (Answer, error) {
	began := map[bool]time.Duration{true: clock(true), false: clock(false)}
	limit, cancel := context.WithTimeout(ctx, AnsweredWithin)
	defer cancel()
	silent := &SilentError{}
	for {
		a, err := askOnce(limit, q, silent)
		switch {
		case err == nil:
			a.Lasts -= clock(a.Monotonic) - began[a.Monotonic]
			return a, nil
		case errors.Is(err, ErrNobody):
			return Answer{}, err
		}
		select {
		case <-time.After(askAgain): // it was turned away, or its flockd is just ending
		case <-limit.Done():
			if ctx.Err() != nil {
				return Answer{}, ctx.Err()
			}
			return Answer{}, silent
		}
	}
}

// askOnce asks once, and learns whom. Errors: ErrNobody; any other may pass.
func askOnce(ctx context.Context, q Question, whom *SilentError) (a Answer, err error) {
	var dialer net.Dialer
	dialed, err := dialer.DialContext(ctx, "unix", address(q.ID).Name)
	switch {
	case errors.Is(err, unix.EAGAIN), err != nil && ctx.Err() != nil: // others ask as well, and none is served
		return a, err
	case err != nil:
		return a, ErrNobody
	}
	defer dialed.Close()
	defer context.AfterFunc(ctx, func() { dialed.Close() })()
	conn := dialed.(*net.UnixConn)
	who, err := peer(conn)
	if err != nil || !trusts(who.Uid) {
		return a, ErrNobody
	}
	whom.PID = int(who.Pid)
	if err := write(conn, q); err != nil {
		return a, err
	}
	return a, read(conn, &a)
}
