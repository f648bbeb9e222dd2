package cmd

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"time"

	"flockd/runner"
)

// report says how a run came out, where that isn't plain from the command.
func (r *lockedRun) report(res runner.Result) {
	class := slog.String("class", string(res.Class))
	token := slog.Int64("token", int64(res.Lease.Token))
	switch res.Class {
	case runner.Finished:
	case runner.Skipped:
		r.reportSkip(res, class)
	case runner.Done:
		r.say(slog.LevelInfo, doneText(r.key, res.Err, time.Now()), class, slog.String("run", r.file.Run))
	case runner.Lost:
		r.say(slog.LevelError, lostText(r.key, res), r.lostAttrs(res, class, token)...)
	case runner.MaxRuntime:
		r.say(slog.LevelError, fmt.Sprintf("stopped %s after --max-runtime %s: the command %s", r.key, short(r.maxRuntime), exitText(res.Exit)), class, token)
	case runner.Unavailable:
		r.say(slog.LevelError, fmt.Sprintf("no lock on %s: %s; the command did not run", r.key, r.whyUnavailable(res.Err)), class)
		r.hint(res.Err)
	case runner.Interrupted:
		r.say(slog.LevelInfo, fmt.Sprintf("stopped waiting for %s: signal %s", r.key, signalName(res.Signal)), class)
	case runner.Nested:
		r.say(slog.LevelError, fmt.Sprintf("%s is %s; the holder encloses this run: the wait would never end", r.key, heldText(r.enclosing(res.Held), r.wish())), class)
		r.print.say(slog.LevelError, "hint: leave the inner flockd run out, or give it another key")
	case runner.NotStarted:
		r.reportNotStarted(res.Err, class)
	case runner.BadGrace:
		r.reportGrace(res.Err, class)
	default:
		r.print.fail(res.Err, class)
	}
}

// whyUnavailable doesn't blame the store where it had granted the key: the hold was lost before
// its command could be started.
func (r *lockedRun) whyUnavailable(err error) string {
	var lost *runner.LostError
	if errors.As(err, &lost) {
		return lost.Error()
	}
	return fmt.Sprintf("the store %s is unavailable: %s", r.backend, r.whyNot(err))
}

// whyNot is the text of err without what the line says anyway: which key was asked for.
func (r *lockedRun) whyNot(err error) string {
	return strings.TrimPrefix(fmt.Sprint(err), fmt.Sprintf("acquire %q: ", r.key))
}

func (r *lockedRun) hint(err error) {
	if hint := hintOf(err); hint != "" {
		r.print.say(slog.LevelError, "hint: "+hint)
	}
}

// reportGrace reports a grace that doesn't fit the TTL that the store granted.
func (r *lockedRun) reportGrace(err error, class slog.Attr) {
	var grace *runner.GraceError
	if errors.As(err, &grace) {
		err = badGrace(grace)
	}
	r.print.fail(err, class)
}

// reportNotStarted reports what the kernel said to an attempt to execute a file
// that looked well.
func (r *lockedRun) reportNotStarted(err error, class slog.Attr) {
	r.say(slog.LevelError, shortened(r.argv[0])+": "+bare(err).Error(), class)
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		r.print.say(slog.LevelError, "hint: a script needs a first line such as #!/bin/sh")
	case errors.Is(err, syscall.ENOENT):
		r.print.say(slog.LevelError, "hint: the file is there, so what its first line (#!) or its format needs is missing")
	}
}

// named is a list for people: not each of hundreds.
func named(list []runner.Process) string {
	const most = 5
	var text []string
	for _, p := range list[:min(len(list), most)] {
		text = append(text, p.String())
	}
	if n := len(list) - most; n > 0 {
		text = append(text, fmt.Sprintf("%d more", n))
	}
	return strings.Join(text, ", ")
}

// exitText is "exited with 3", or "was ended by signal KILL".
func exitText(e runner.Exit) string {
	switch {
	case e.Signal != 0:
		return "was ended by signal " + signalName(e.Signal)
	case e.Ended.IsZero():
		return "did not run"
	}
	return fmt.Sprintf("exited with %d", e.Code)
}
