package cmd

import (
	"context"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// readerEvery is how often a watch looks whether its output has a reader.
const readerEvery = time.Second

// whileRead is ctx until out has no reader any more, be it that nothing is written: the
// cause is then the error of a write. Call stop in the end.
func whileRead(ctx context.Context, out *os.File) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		ticker := time.NewTicker(readerEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			if unread(out) {
				cancel(os.NewSyscallError("write", syscall.EPIPE))
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// unread reports whether out is a pipe without a reader, or a terminal that has hung up.
func unread(out *os.File) bool {
	raw, err := out.SyscallConn()
	if err != nil {
		return false
	}
	fds := []unix.PollFd{{}}
	raw.Control(func(fd uintptr) {
		fds[0].Fd = int32(fd)
		_, err = unix.Poll(fds, 0)
	})
	return err == nil && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}
