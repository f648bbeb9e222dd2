//go:build linux

package fence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"flockd/backends"
)

// With this variable the test binary is a writer: of stdin to the file that the only
// argument names.
const tokenOfWriter = "FENCE_TEST_TOKEN"

// strace counts the calls of each thread by itself: the writer keeps to one.
func init() {
	if os.Getenv(tokenOfWriter) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	if text := os.Getenv(tokenOfWriter); text != "" {
		os.Exit(write(os.Args[1], text))
	}
	os.Exit(m.Run())
}

const (
	failed      = 1
	refusedPath = 2
	refused     = 3 // as stale
	interrupted = 4
)

func write(path, token string) int {
	n, err := strconv.ParseInt(token, 10, 64)
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err = Replace(ctx, path, backends.Token(n), os.Stdin)
	var bad *PathError
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		return interrupted
	case errors.As(err, &bad):
		return refusedPath
	case errors.Is(err, backends.ErrStale):
		return refused
	}
	fmt.Fprintln(os.Stderr, err)
	return failed
}
