package cmd

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"flockd/backends"
	"flockd/fence"
	"flockd/runner"
	"flockd/runner/signals"
)

func (a *app) newFenceFile() *cobra.Command {
	token, raise, size := newToken(), newSwitch(), newSize()
	cmd := &cobra.Command{
		Use:   "file DEST [flags]",
		Short: "Replace a file, unless a larger token has been there",
		Long: "Read standard input to its end, and put it in the place of DEST as a whole, unless\n" +
			"DEST has seen a larger token. Readers find the old content or the new one, as does\n" +
			"whoever looks after a crash. The largest token is kept beside it, in .NAME.fence.\n" +
			"An empty content is refused without --size 0.",
		Example: strings.Trim(fenceFileExamples, "\n"),
		Args:    arguments(1, "DEST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkValues(cmd.Flags(), a.Args); err != nil {
				return err
			}
			n, err := tokenOf(token, a.Streams)
			if err != nil {
				return err
			}
			ctx, heard := a.untilSignal(cmd.Context())
			if raise.of {
				return raiseFile(ctx, args[0], n, size)
			}
			content, err := contentOf(a.Stdin, size, heard)
			if err != nil {
				return err
			}
			return fenced(fence.Replace(ctx, args[0], n, content))
		},
	}
	addToken(cmd.Flags(), token)
	addFlag(cmd.Flags(), groupOutcome, "size", "", size, "refuse a content of any other length: the end of the input alone doesn't tell whether all has come. 0: DEST is to be empty")
	addSwitch(cmd.Flags(), groupOutcome, "raise", "", raise, "read nothing, and leave DEST as it is: only refuse smaller tokens from now on, before DEST is read to be changed")
	completeFlags(cmd)
	return cmd
}

const fenceFileExamples = `
# in a script that flockd run runs: whoever comes too late is refused
new=$(mktemp) && trap 'rm -f "$new"' EXIT
./report.sh >"$new" && flockd fence file /srv/www/report.html <"$new"

# the file lies on another host: --size tells a connection that broke from the end of the content
ssh web1 flockd fence file --token "$FLOCKD_TOKEN" --size "$(wc -c <"$new")" /srv/www/report.html <"$new"

# a file that is changed by what it says: from the first line on no smaller token gets in between
flockd fence file counter --raise &&
	n=$(cat counter) &&
	echo $((n + 1)) | flockd fence file counter
`

func raiseFile(ctx context.Context, path string, token backends.Token, size *value[int64]) error {
	if size.given() {
		return usage("", "--size makes no sense with --raise, which reads nothing")
	}
	return fenced(fence.Raise(ctx, path, token))
}

// fenced is an error of the package fence's with its class.
func fenced(err error) error {
	var (
		interrupt *interrupt
		stale     *backends.StaleError
		bad       *fence.PathError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &interrupt):
		return &ended{result: runner.Result{Class: runner.Interrupted, Signal: interrupt.signal}}
	case errors.As(err, &stale):
		return staleFailure(stale, "")
	case errors.As(err, &bad):
		return usage(bad.Hint, "%w", bad)
	case errors.Is(err, errNoContent):
		return &failure{runner.Unavailable, err, "where DEST is to be empty, say --size 0"}
	}
	return &failure{runner.Unavailable, err, ""}
}

// interrupt is a signal that came to us.
type interrupt struct{ signal syscall.Signal }

func (e *interrupt) Error() string { return e.signal.String() }

// untilSignal ends ctx with the first signal that asks us to end, and an *interrupt as
// its cause. heard returns when this has been done for those that came before it was called:
// on a busy host what a signal makes of a pipe may be seen before the signal.
func (a *app) untilSignal(ctx context.Context) (_ context.Context, heard func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	caught := a.takeSignals()
	echo := make(chan struct{}, 1)
	go func() {
		for sig := range caught {
			switch {
			case signals.EndsWait(sig):
				cancel(&interrupt{sig.(syscall.Signal)})
			case sig == echoed:
				select {
				case echo <- struct{}{}:
				default:
				}
			}
		}
	}()
	return ctx, func() {
		if caught == nil || syscall.Kill(syscall.Getpid(), echoed) != nil {
			return
		}
		select {
		case <-echo:
		case <-ctx.Done():
		case <-time.After(time.Second): // it was ignored when we started, perhaps
		}
	}
}

// echoed is a signal that we send to ourselves. Of those that have come, the kernel and the
// runtime pass on the one with the smaller number first, and this one has a larger than all
// that end us.
const echoed = syscall.SIGWINCH
