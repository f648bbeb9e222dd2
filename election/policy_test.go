package election

import (
	"errors"
	"testing"
	"time"

	"flockd/backends"
	"flockd/runner"
)

func TestPolicy(t *testing.T) {
	exit := func(code int) runner.Result {
		return runner.Result{Class: runner.Finished, Exit: runner.Exit{Code: code}}
	}
	of := func(class runner.Class, err error) runner.Result { return runner.Result{Class: class, Err: err} }
	lost := &runner.LostError{Err: backends.ErrLost}
	refused := backends.Refuse("", "wrong password")
	stays, atOnce, rests := next{}, next{again: true}, next{again: true, pause: pauseMin}
	for _, tc := range []struct {
		name                     string
		res                      runner.Result
		new                      bool // it was never in line
		always, onFailure, never next
	}{
		{"success", exit(0), false, rests, stays, stays},
		{"failure", exit(3), false, rests, rests, stays},
		{"can't start", of(runner.NotStarted, errors.New("no such file")), false, rests, rests, stays},
		{"lost", of(runner.Lost, lost), false, atOnce, atOnce, atOnce},
		{"asked", of(runner.Lost, &runner.LostError{}), false, atOnce, atOnce, atOnce},
		{"lost before the start", of(runner.Unavailable, lost), false, atOnce, atOnce, atOnce},
		{"removed from the line", of(runner.Skipped, &backends.RemovedError{}), false, atOnce, atOnce, atOnce},
		{"lapsed", of(runner.Skipped, runner.ErrLapsed), false, atOnce, atOnce, atOnce},
		{"refused at once", of(runner.Unavailable, refused), true, stays, stays, stays},
		{"refused later", of(runner.Unavailable, refused), false, rests, rests, rests},
		{"its own hold", of(runner.Nested, nil), true, stays, stays, stays},
		{"bad grace", of(runner.BadGrace, nil), false, stays, stays, stays},
		{"internal", of(runner.Internal, nil), false, stays, stays, stays},
	} {
		for restart, want := range map[Restart]next{Always: tc.always, OnFailure: tc.onFailure, Never: tc.never} {
			if _, got := (policy{restart: restart}).after(outcome{Result: tc.res, known: !tc.new}); got != want {
				t.Errorf("%s, %s: %+v, want %+v", tc.name, restart, got, want)
			}
		}
	}
}

// The pause doubles up to its bound, and begins anew after a command that was well, however
// that ended.
func TestPauses(t *testing.T) {
	p := policy{restart: Always}
	own := runner.Result{Class: runner.Finished}
	lost := runner.Result{Class: runner.Lost}
	for i, step := range []struct {
		res  runner.Result
		ran  time.Duration
		want time.Duration
	}{
		{own, 0, time.Second}, {own, healthy - 1, 2 * time.Second}, {own, 0, 4 * time.Second},
		{lost, 0, 0}, {own, 0, 8 * time.Second}, {own, 0, 16 * time.Second}, {own, 0, 32 * time.Second},
		{own, 0, time.Minute}, {own, 0, time.Minute},
		{own, healthy, time.Second}, {own, 0, 2 * time.Second},
		{lost, healthy, 0}, {own, 0, time.Second},
	} {
		var n next
		if p, n = p.after(outcome{step.res, time.Hour, step.ran, true}); n.pause != step.want || !n.again {
			t.Errorf("step %d: %+v, want %v", i, n, step.want)
		}
	}
}

// What is lost is followed at once, but not over and over: a loop of losses that take less than a
// lease is slowed down, until one took longer.
func TestFastLosses(t *testing.T) {
	const ttl = 15 * time.Second
	p := policy{restart: Always, ttl: ttl}
	lost := &runner.LostError{Err: backends.ErrLost}
	of := func(class runner.Class, err error, took, want time.Duration) func(int) {
		return func(i int) {
			var n next
			if p, n = p.after(outcome{runner.Result{Class: class, Err: err}, took, 0, true}); n.pause != want || !n.again {
				t.Errorf("step %d: %+v, want %v", i, n, want)
			}
		}
	}
	for i, step := range []func(int){
		of(runner.Lost, lost, 0, 0), of(runner.Lost, lost, ttl-1, pauseMin),
		of(runner.Skipped, runner.ErrLapsed, 0, 2*pauseMin), of(runner.Unavailable, lost, 0, 4*pauseMin),
		of(runner.Lost, lost, ttl, 0), of(runner.Lost, lost, 0, pauseMin),
		of(runner.Lost, &runner.LostError{}, 0, 0), of(runner.Lost, &runner.LostError{}, 0, 0),
		of(runner.Lost, lost, 0, pauseMin), of(runner.Lost, lost, 0, 2*pauseMin), of(runner.Lost, lost, 0, 4*pauseMin),
		of(runner.Lost, lost, 0, 8*pauseMin), of(runner.Lost, lost, 0, 16*pauseMin), of(runner.Lost, lost, 0, 32*pauseMin),
		of(runner.Lost, lost, 0, pauseMax), of(runner.Lost, lost, 0, pauseMax),
	} {
		step(i)
	}
}
