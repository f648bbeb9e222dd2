package cmd

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"flockd/backends"
	"flockd/runner"
)

// noticeOf is the notice that ended a run, or its wait; zero: none did.
func noticeOf(res runner.Result) backends.Notice {
	var lost *runner.LostError
	var removed *backends.RemovedError
	switch {
	case errors.As(res.Err, &lost):
		return cleanNotice(lost.Notice)
	case errors.As(res.Err, &removed):
		return cleanNotice(removed.Notice)
	case res.Held != nil:
		return cleanNotice(res.Held.Notice)
	}
	return backends.Notice{}
}

func (r *lockedRun) reportSkip(res runner.Result, class slog.Attr) {
	attrs := []slog.Attr{class}
	if res.Held != nil {
		attrs = append(attrs, slog.Any("held_by", cleanClaims(res.Held.Holders)), slog.Int("waiting", res.Held.Waiters))
	}
	if n := noticeOf(res); n != (backends.Notice{}) {
		attrs = append(attrs, slog.Any("notice", n))
	}
	r.say(slog.LevelInfo, "skipped "+r.key+": "+r.whySkipped(res), attrs...)
}

func (r *lockedRun) whySkipped(res runner.Result) string {
	switch n := noticeOf(res); {
	case n != backends.Notice{}:
		return whyLeft(n)
	case errors.Is(res.Err, runner.ErrLapsed):
		return res.Err.Error()
	case res.Held == nil:
		return r.whyUnavailable(res.Err)
	}
	text := heldText(res.Held, r.wish())
	if slices.ContainsFunc(res.Held.Holders, r.encloses) {
		text += "; the holder encloses this run"
	}
	switch {
	case r.maxWaiters == runner.Nobody:
		text += "; nobody may wait"
	case r.maxWaiters > 0 && res.Held.Ahead >= r.maxWaiters:
		text += fmt.Sprintf("; no more than %d may wait", r.maxWaiters)
	case r.wait > 0:
		text += "; gave up after " + short(r.wait)
	}
	return text
}

// whyLeft says who made a run leave the line, and why.
func whyLeft(n backends.Notice) string {
	text := "asked to leave the line by "
	switch {
	case n.Kind == backends.Supersede:
		text = "superseded by "
	case n.Force:
		text = "its place in line was removed by "
	}
	text += ownerText(n.By)
	if n.Reason != "" {
		text += ": " + n.Reason
	}
	return text
}

func (r *lockedRun) encloses(c backends.Claim) bool { return slices.Contains(r.chain, c.ID) }

// enclosing is held with those holders alone that enclose the run.
func (r *lockedRun) enclosing(held *backends.HeldError) *backends.HeldError {
	ours := *held
	ours.Holders = slices.DeleteFunc(slices.Clone(held.Holders), func(c backends.Claim) bool { return !r.encloses(c) })
	if len(ours.Holders) == 0 {
		return held
	}
	return &ours
}

// lostText says what was lost: the lock, or the record that a run has succeeded.
func lostText(key string, res runner.Result) string {
	var lost *runner.LostError
	if res.Unrecorded && !errors.As(res.Err, &lost) {
		return fmt.Sprintf("%s has succeeded as %s (token %d), unrecorded: %v; the next run may not know of it", key, res.Lease.Run, res.Lease.Token, res.Err)
	}
	text := fmt.Sprintf("lost the lock on %s (token %d): %v; the command %s", key, res.Lease.Token, res.Err, exitText(res.Exit))
	if res.Unrecorded {
		text += ", unrecorded: the next run may not know of it"
	}
	return text
}

func (r *lockedRun) lostAttrs(res runner.Result, attrs ...slog.Attr) []slog.Attr {
	if res.Unrecorded {
		attrs = append(attrs, slog.String("run", res.Lease.Run), slog.Bool("unrecorded", true))
	}
	if n := noticeOf(res); n != (backends.Notice{}) {
		attrs = append(attrs, slog.Any("notice", n))
	}
	return attrs
}

// doneText says which run has succeeded, by whom and when.
func doneText(key string, err error, now time.Time) string {
	var done *backends.DoneError
	if !errors.As(err, &done) {
		return fmt.Sprintf("%s: this run has succeeded already: %v", key, err)
	}
	e := done.Entry
	text := fmt.Sprintf("%s: %s has succeeded already: by %s", key, e.Run, ownerText(e.Owner))
	if !e.At.IsZero() {
		text += ", " + age(now.Sub(e.At)) + " ago, at " + e.At.Local().Format(stamp)
	}
	return text
}
