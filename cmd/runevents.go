package cmd

import (
	"log/slog"
	"time"

	"flockd/backends"
	"flockd/runner"
)

// What a run does when the runner has something to tell.

// onWait shows that the run waits.
func (r *lockedRun) onWait(held *backends.HeldError) {
	if r.waiting == nil {
		r.waiting = r.newWaiting()
		if err := r.file.write(classWaiting); err != nil {
			r.warnResultFile(err)
		}
	}
	r.waiting.heard(time.Now(), held)
}

// onWaited takes away what was shown. Where the key was granted the time of the lease runs,
// and onGrant makes sure of it.
func (r *lockedRun) onWaited(class runner.Class) {
	r.waiting.end()
	if class != "" {
		r.lines.hide()
	}
}

func (r *lockedRun) onGrant(lease backends.Lease) error {
	if err := r.file.running(lease); err != nil {
		r.warnResultFile(err)
	}
	return nil
}

func (r *lockedRun) onStart(lease backends.Lease) {
	if err := r.file.running(lease); err != nil {
		r.warnResultFile(err)
	}
	if r.Process {
		leaveDescriptors(r.descriptors)
	}
}

// onUnkept says that the command had better go on soon, before we stop as well.
func (r *lockedRun) onUnkept(err error) {
	r.say(slog.LevelWarn, "the command is stopped, and nobody renews its lease until it goes on: "+err.Error())
	r.lines.flush()
}

// onLeft names processes that the command has left behind.
func (r *lockedRun) onLeft(left []runner.Process) {
	r.say(slog.LevelWarn, shortened(r.argv[0])+" has left processes behind, which run on: "+named(left), slog.Any("left", left))
	r.print.say(slog.LevelWarn, "hint: --leftovers leave, wait or kill says what is to become of them")
}

// onEnd makes the result file say how the run came out. What it says already it
// isn't told again.
func (r *lockedRun) onEnd(res runner.Result) {
	if err := r.file.end(res, exitCode(res, r.exits), r.print.clean); err != nil {
		r.warnResultFile(err)
	}
}

// say prints a line about this run.
func (r *lockedRun) say(level slog.Level, text string, attrs ...slog.Attr) {
	r.print.say(level, text, append([]slog.Attr{slog.String("key", r.key), slog.String("backend", r.backend.String())}, attrs...)...)
}

func (r *lockedRun) warnResultFile(err error) {
	r.say(slog.LevelWarn, "the result file "+r.file.path+" can't be written: "+err.Error())
}
