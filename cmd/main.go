// Package cmd is flockd's commands: flags, output and exit codes, and nothing of
// how a lock is taken.
package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"flockd/backends"
	"flockd/backends/all"
	"flockd/drill"
	"flockd/runner"
	"flockd/runner/signals"
)

// app is what the commands share.
type app struct {
	Streams
	files fs.FS  // man/ and completions/
	lines *lines // to stderr

	unwritten error // why the help couldn't be written, which cobra doesn't ask for
	print     *printer
	run       func(context.Context, *runOptions) error                       // what a run does, once its flags are understood
	elect     func(context.Context, *electOptions) error                     // the same of a candidate
	find      func(context.Context, *backends.URL) (backends.Backend, error) // opens a store that the other commands ask
	open      func(context.Context, *backends.URL) (backends.Backend, error) // the same, and makes one where there is none
}

// Main runs the command that the arguments name, with files holding the man
// pages and completions, and returns the exit code. It doesn't return if a signal
// is to end the process.
func Main(streams Streams, files fs.FS) (code int) {
	switch streams.Name {
	case runner.GiveBackName:
		return giveBack(streams.Stdin)
	case runner.StandInName:
		return standIn()
	case drill.ContenderName:
		return contend(streams, asItIs)
	case drill.CommandName:
		return throwAway(streams)
	}
	a := &app{Streams: streams, files: files, lines: newLines(streams.Stderr)}
	a.print = newPrinter(a.lines, false, false, false)
	a.run, a.elect, a.find, a.open = a.runLocked, a.runCandidate, all.Find, all.Open
	defer a.lines.flush()
	defer func() {
		if fault := recover(); fault != nil {
			a.print.fail(fmt.Errorf("internal fault: %v", fault))
			code = exitCode(runner.Result{Class: runner.Internal}, nil)
		}
	}()
	root := a.newRoot()
	root.SetArgs(streams.Args)
	err := root.ExecuteContext(context.Background())
	return a.end(cmp.Or(err, a.unwritten))
}

// end reports an error that hasn't been, and turns it into the exit code.
func (a *app) end(err error) int {
	var e *ended
	var code exited
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		if e.signal() != 0 && a.Process {
			a.lines.flush()
			signals.DieOf(e.signal())
		}
		return e.code()
	case errors.As(err, &code):
		return int(code)
	case isClosedPipe(err):
		return 128 + int(syscall.SIGPIPE)
	}
	a.print.fail(err)
	return exitCode(resultOf(err), nil)
}

// isClosedPipe reports whether the reader of our output has gone away. Where SIGPIPE isn't
// ignored it ends us before anybody asks.
func isClosedPipe(err error) bool {
	var f *failure
	return errors.Is(err, syscall.EPIPE) && !errors.As(err, &f)
}

func (a *app) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "flockd",
		Short: "Run a command under a distributed lock",
		Long: "flockd runs a command under a lock, and stops the command before somebody else\n" +
			"can be granted the lock.",
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 2,
		CompletionOptions:          cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	version := root.Flags().BoolP("version", "V", false, "show the version")
	root.RunE = func(_ *cobra.Command, args []string) error {
		if *version {
			return a.printVersion()
		}
		return noCommand(root, args)
	}
	root.SetOut(a.Stdout)
	root.SetErr(a.lines)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { _, a.unwritten = fmt.Fprint(a.Stdout, helpText(cmd)) })
	root.SetHelpCommand(a.newHelp(root))
	root.AddCommand(
		a.newRun(), a.newElect(), a.newLeader(), a.newResign(), a.newDrill(), a.newStatus(), a.newList(), a.newBreak(), a.newCheck(), a.newOnce(),
		a.newFence(), a.newConfig(), a.newSchema(), a.newVersion(), a.newCompletion(), a.newMan(),
	)
	return root
}

// noCommand is the usage error for a command of parent's that isn't there.
func noCommand(parent *cobra.Command, args []string) error {
	path := parent.CommandPath()
	hint := "see " + path + " --help"
	if len(args) == 0 {
		return usage(hint, "no command is given")
	}
	near := parent.SuggestionsFor(args[0])
	if verb, isNoun := strings.CutSuffix(args[0], "ion"); isNoun && len(near) == 0 {
		near = parent.SuggestionsFor(verb) // election
	}
	if len(near) > 0 {
		hint = "did you mean " + path + " " + strings.Join(near, ", "+path+" ") + "?"
	}
	return usage(hint, "there is no command %s", shortened(args[0]))
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("see "+cmd.CommandPath()+" --help", "%s takes no argument", cmd.CommandPath())
	}
	return nil
}

// signal is the signal that came to us and ended the command or the wait.
func (e *ended) signal() syscall.Signal {
	if e.result.Class == runner.Finished || e.result.Class == runner.Interrupted {
		return e.result.Signal
	}
	return 0
}
