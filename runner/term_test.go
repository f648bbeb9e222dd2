package runner

import (
	"errors"
	"testing"
	"time"

	"flockd/backends"
)

// aMinute is the time line of a minute: renew 20 s, TERM 48.8 s, KILL 58.8 s.
func aMinute() term {
	timing, err := NewTiming(time.Minute, DefaultGrace)
	if err != nil {
		panic(err)
	}
	return term{timing: timing}.renewed(0, 0)
}

const (
	sec        = time.Second
	minuteTerm = 48_800 * time.Millisecond
	minuteKill = 58_800 * time.Millisecond
)

func TestTermDecides(t *testing.T) {
	unknown := errors.New("connection reset")
	fresh := aMinute()
	late := fresh.asked(20*sec).failed(unknown, 21*sec)
	for _, tc := range []struct {
		name string
		term term
		now  time.Duration
		want step
	}{
		{"fresh", fresh, 0, step{do: rest, at: 20 * sec}},
		{"due", fresh, 20 * sec, step{do: renew}},
		{"asking", fresh.asked(20 * sec), 21 * sec, step{do: rest, at: 27_500 * time.Millisecond}},
		{"asking for too long", fresh.asked(20 * sec), 27_500 * time.Millisecond, step{do: giveUp}},
		{"failed", late, 21 * sec, step{do: rest, at: 22_500 * time.Millisecond}},
		{"again", late, 22_500 * time.Millisecond, step{do: renew}},
		{"before TERM", fresh.failed(unknown, 48*sec), 48 * sec, step{do: rest, at: minuteTerm}},
		{"TERM", late, minuteTerm, step{do: tell, stop: stop{minuteKill, ErrExpiring}}},
		{"TERM while asking", fresh.asked(45 * sec), minuteTerm, step{do: tell, stop: stop{minuteKill, ErrExpiring}}},
		{"woken after KILL", fresh, time.Hour, step{do: tell, stop: stop{minuteKill, ErrExpiring}}},
		{"told", late.passedOn(minuteTerm), minuteTerm, step{do: rest, at: minuteTerm + 1500*time.Millisecond}},
		{"told, renewing", late.passedOn(minuteTerm), 55 * sec, step{do: renew}},
		{"renewed", fresh.renewed(30*sec, 0), 31 * sec, step{do: rest, at: 50 * sec}},
		{"renewed early", fresh.renewed(30*sec, 1), 31 * sec, step{do: rest, at: 48 * sec}},
		{"hinted", fresh.hinted(sec), sec, step{do: renew}},
		{"hinted while asking", fresh.asked(20 * sec).hinted(21 * sec), 21 * sec, step{do: rest, at: 27_500 * time.Millisecond}},
		{"hinted when due", fresh.hinted(25 * sec), 25 * sec, step{do: renew}},
		{"wanted", fresh.asked(0).renewed(0, 0).wanted(sec, 10*time.Millisecond), sec, step{do: renew}},
		{"wanted just after", fresh.asked(5*sec).renewed(5*sec, 0).wanted(5*sec, sec), 5 * sec, step{do: rest, at: 6 * sec}},
		{"wanted while asking", fresh.asked(20*sec).wanted(21*sec, 0), 21 * sec, step{do: rest, at: 27_500 * time.Millisecond}},
		{"wanted when due", fresh.wanted(25*sec, sec), 25 * sec, step{do: renew}},
		{"wanted at TERM", late.wanted(minuteTerm, 0), minuteTerm, step{do: tell, stop: stop{minuteKill, ErrExpiring}}},
		{"renewed by an old request", fresh.renewed(5*sec, 0), 55 * sec, step{do: tell, stop: stop{minuteKill + 5*sec, ErrExpiring}}},
	} {
		if got := tc.term.decide(tc.now); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestTermIsLostByTheStoresWord(t *testing.T) {
	for _, tc := range []struct {
		name  string
		now   time.Duration
		grace time.Duration
		kill  time.Duration
	}{
		{"2 s", 20 * sec, DefaultGrace, 22 * sec},
		{"the grace, if that is less", 20 * sec, sec, 21 * sec},
		{"the old deadline, if that is sooner", 58 * sec, DefaultGrace, minuteKill},
	} {
		timing, err := NewTiming(time.Minute, tc.grace)
		if err != nil {
			t.Fatal(err)
		}
		lost := term{timing: timing}.renewed(0, 0).failed(backends.ErrLost, tc.now)
		s := lost.decide(tc.now)
		if s.do != tell || s.stop.kill != tc.kill || !errors.Is(s.stop.why, backends.ErrLost) {
			t.Errorf("%s: %+v", tc.name, s)
		}
		if s := lost.passedOn(tc.now).decide(time.Hour); s.do != rest || s.at != never {
			t.Errorf("%s: does %+v after that", tc.name, s)
		}
	}
}

func TestLossBringsTheStopForward(t *testing.T) {
	told := aMinute().passedOn(minuteTerm)
	if s := told.failed(backends.ErrLost, 50*sec).decide(50 * sec); s.do != tell || s.stop.kill != 52*sec {
		t.Errorf("got %+v", s)
	}
}

// The grace is the command's, for which the lease is renewed; a lease that can't be brings the
// stop forward.
func TestNoticeStopsWithTheWholeGrace(t *testing.T) {
	why := &LostError{Notice: backends.Notice{Kind: backends.Break}}
	noticed := aMinute().renewed(20*sec, 0).noticed(why, 21*sec, time.Hour)
	if s := noticed.decide(21 * sec); s != (step{do: tell, stop: stop{time.Hour + 21*sec, why}}) {
		t.Errorf("got %+v", s)
	}
	told := noticed.passedOn(21 * sec)
	if s := told.noticed(why, 40*sec, time.Hour).decide(40 * sec); s.do != renew {
		t.Errorf("told twice: %+v", s)
	}
	expired := told.noticed(why, 40*sec, time.Hour).decide(20*sec + minuteTerm)
	if expired != (step{do: tell, stop: stop{20*sec + minuteKill, ErrExpiring}}) {
		t.Errorf("the lease has run out: %+v", expired)
	}
	if s := told.passedOn(20*sec + minuteTerm).decide(time.Hour); s.do != renew {
		t.Errorf("told twice of the lease: %+v", s)
	}
	if s := told.failed(backends.ErrLost, 40*sec).decide(40 * sec); s.do != tell || s.stop.kill != 42*sec {
		t.Errorf("the lease is gone: %+v", s)
	}
	late := aMinute().noticed(why, minuteTerm, time.Hour)
	if s := late.decide(minuteTerm); s.stop.why != ErrExpiring {
		t.Errorf("the lease comes first: %+v", s)
	}
	if s := late.passedOn(minuteTerm).decide(minuteTerm); s.do == tell {
		t.Errorf("the command is being stopped, and told %+v", s)
	}
}

// A pause that ends behind the deadline stops the command, whatever a renewal says that
// was asked for before it.
func TestARenewalThatComesTooLate(t *testing.T) {
	asked := aMinute().asked(20 * sec)
	for _, tc := range []struct {
		now time.Duration
		due bool
	}{
		{minuteTerm - 1, false},
		{minuteTerm, true},
		{time.Hour, true},
	} {
		heard := asked.late(tc.now).renewed(20*sec, 0)
		if due := heard.due != nil; due != tc.due || due && *heard.due != (stop{minuteKill, ErrExpiring}) {
			t.Errorf("at %v: %+v", tc.now, heard)
		}
	}
}

func TestStanding(t *testing.T) {
	fresh := aMinute()
	for _, tc := range []struct {
		name string
		term term
		now  time.Duration
		want error
	}{
		{"held", fresh, minuteTerm - 1, nil},
		{"unproven", fresh, minuteTerm, ErrExpiring},
		{"gone", fresh.failed(backends.ErrLost, sec), sec, backends.ErrLost},
		{"gone and told", fresh.failed(backends.ErrLost, sec).passedOn(sec), sec, backends.ErrLost},
		{"asked to stop, but held", fresh.noticed(errors.New("break"), sec, sec), sec, nil},
	} {
		if got := tc.term.standing(tc.now); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
