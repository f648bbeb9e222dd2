package cmd

import (
	"errors"
	"fmt"

	"flockd/runner"
)

// The classes that only flockd's own commands come to, beside runner's.
const (
	classUsage    runner.Class = "usage"     // wrong flags or configuration
	classNotFound runner.Class = "not-found" // COMMAND was not found
	classStale    runner.Class = "stale"     // a fencing token that is smaller than one that came before
)

// failure is an error with its class and, where one helps, a hint.
type failure struct {
	class runner.Class
	err   error
	hint  string
}

func (f *failure) Error() string { return f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

// usage is a failure of whoever called. An empty hint is none.
func usage(hint, format string, args ...any) error {
	return &failure{classUsage, fmt.Errorf(format, args...), hint}
}

// ended is a run that has been reported and ends flockd with its exit code.
type ended struct {
	result runner.Result
	exits  map[runner.Class]int
}

func (e *ended) Error() string { return string(e.result.Class) }

func (e *ended) code() int { return exitCode(e.result, e.exits) }

// exitCode is the one place where an outcome becomes an exit code. chosen holds
// those that the user set.
func exitCode(result runner.Result, chosen map[runner.Class]int) int {
	if code, ok := chosen[result.Class]; ok {
		return code
	}
	switch result.Class {
	case runner.Finished:
		return result.Exit.Code
	case runner.Skipped:
		return 75
	case runner.Done, classResigned:
		return 0
	case runner.Lost:
		return 79
	case classStale:
		return 80
	case runner.Unavailable:
		return 69
	case runner.MaxRuntime:
		return 124
	case runner.NotStarted:
		return 126
	case classNotFound:
		return 127
	case runner.Interrupted:
		return 128 + int(result.Signal)
	case classUsage, runner.Nested, runner.BadGrace:
		return 64
	}
	return 70
}

// resultOf is the outcome that an error stands for.
func resultOf(err error) runner.Result {
	var f *failure
	if errors.As(err, &f) {
		return runner.Result{Class: f.class, Err: err}
	}
	return runner.Result{Class: runner.Internal, Err: err}
}
