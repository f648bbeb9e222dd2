package drill

import (
	"slices"
	"testing"
	"time"

	"flockd/backends"
)

const ms = time.Millisecond

// seen are the events of a drill that goes well: a leads, is disturbed at 1 s, ends at 3 s, b
// leads from 3.2 s on, and the drill is over at 5 s.
func seen() []Event {
	return []Event{
		{Kind: InLine, Contender: "a", At: 100 * ms},
		{Kind: InLine, Contender: "b", At: 110 * ms},
		{Kind: Started, Contender: "a", At: 200 * ms, Token: 11, PID: 1, Alone: true},
		{Kind: Wrote, Contender: "a", At: 210 * ms, Until: 220 * ms, Token: 11, PID: 1},
		{Kind: Beat, Contender: "a", At: 900 * ms, Token: 11, PID: 1},
		{Kind: Struck, Contender: "a", At: 1000 * ms, Token: 11},
		{Kind: Beat, Contender: "a", At: 2900 * ms, Token: 11, PID: 1},
		{Kind: Ended, Contender: "a", At: 3000 * ms, Token: 11, PID: 1},
		{Kind: Started, Contender: "b", At: 3200 * ms, Token: 12, PID: 2, Alone: true},
		{Kind: Wrote, Contender: "b", At: 3210 * ms, Until: 3220 * ms, Token: 12, PID: 2},
		{Kind: Refused, At: 3300 * ms, Until: 3310 * ms, Token: 11},
		{Kind: Refused, At: 3310 * ms, Until: 3320 * ms, Token: 10},
		{Kind: Mended, Contender: "a", At: 3400 * ms},
		{Kind: InLine, Contender: "a", At: 3600 * ms},
		{Kind: Closing, At: 5000 * ms},
		{Kind: Beat, Contender: "b", At: 5001 * ms, Token: 12, PID: 2},
		{Kind: Ended, Contender: "b", At: 5100 * ms, Token: 12, PID: 2},
	}
}

// without are the events that drop doesn't name.
func without(events []Event, drop func(Event) bool) []Event { return slices.DeleteFunc(events, drop) }

// changed are the events, each as change leaves it.
func changed(events []Event, change func(*Event)) []Event {
	for i := range events {
		change(&events[i])
	}
	return events
}

var verdicts = []struct {
	name   string
	fault  Fault
	events []Event
	want   []Failure
}{
	{"all goes well", Cut, seen(), nil},
	{"frozen, and all goes well", Freeze, seen(), nil},
	{"killed, and never seen again", Kill, without(seen(), func(e Event) bool {
		return e.Contender == "a" && e.At > 3300*ms
	}), nil},
	{"asked, and in line again before the other has begun", Resign, append(without(seen(), func(e Event) bool {
		return e.Kind == Mended || e.Kind == InLine && e.At > 3300*ms
	}), Event{Kind: InLine, Contender: "a", At: 3100 * ms}), nil},
	{"the old one's end is heard of late", Cut, changed(seen(), func(e *Event) {
		if e.Kind == Ended && e.Contender == "a" {
			e.At = 3500 * ms
		}
	}), nil},
	{"a lease is lost before the fault, and the next leader is disturbed", Cut, append(changed(without(seen(), func(e Event) bool {
		return e.Kind == Refused && e.Token == 10
	}), func(e *Event) {}),
		Event{Kind: Started, Contender: "b", At: 120 * ms, Token: 10, PID: 9, Alone: true},
		Event{Kind: Wrote, Contender: "b", At: 130 * ms, Until: 140 * ms, Token: 10, PID: 9},
		Event{Kind: Ended, Contender: "b", At: 150 * ms, Token: 10, PID: 9},
	), []Failure{TermsFell}}, // 10 is the drill's own

	{"the old one is elected anew, since the next has lost its lease", Cut, append(without(seen(), func(e Event) bool {
		return e.Kind == InLine && e.At > 3300*ms
	}), Event{Kind: Started, Contender: "a", At: 5500 * ms, Token: 13, PID: 5, Alone: true}), nil},

	{"the old one lives on beside the new one", Cut, append(seen(),
		Event{Kind: Beat, Contender: "a", At: 3200 * ms, Token: 11, PID: 1}), []Failure{Overlap}},
	{"the lock is refused to the new one", Cut, changed(seen(), func(e *Event) {
		if e.Kind == Started && e.Contender == "b" {
			e.Alone = false
		}
	}), []Failure{Overlap}},
	{"the lock is refused to the one that says first that it lives", Cut, changed(seen(), func(e *Event) {
		if e.Kind == Started && e.Contender == "a" {
			e.Alone = false
		}
	}), []Failure{Overlap}},
	{"the lock is refused, and nobody says that he has it", Cut, []Event{
		{Kind: Started, Contender: "a", At: 200 * ms, Token: 11, PID: 1},
		{Kind: Struck, Contender: "a", At: 1000 * ms, Token: 11},
	}, []Failure{Overlap, NoChange}},
	{"the old one's write comes while the new one runs", Cut, append(seen(),
		Event{Kind: Refused, Contender: "a", At: 3300 * ms, Until: 3400 * ms, Token: 11, PID: 1}), []Failure{Overlap}},
	{"both run, which ends the drill before any write is tried", Cut, append(without(seen(), func(e Event) bool {
		return e.At > 3220*ms && e.Kind != Closing && e.Kind != Ended
	}), Event{Kind: Beat, Contender: "a", At: 3200 * ms, Token: 11, PID: 1}), []Failure{Overlap}},
	{"both lead from the start", Cut, append(seen(),
		Event{Kind: Started, Contender: "b", At: 300 * ms, Token: 13, PID: 3},
		Event{Kind: Ended, Contender: "b", At: 5100 * ms, Token: 13, PID: 3}), []Failure{Overlap, TermsFell}},

	{"the new term is the old one", Cut, changed(seen(), func(e *Event) {
		if e.Contender == "b" && e.Token != 0 {
			e.Token = 11
		}
	}), []Failure{TermsFell}},
	{"the new term is smaller", Cut, changed(without(seen(), func(e Event) bool { return e.Kind == Refused }), func(e *Event) {
		if e.Contender == "a" && e.Token != 0 {
			e.Token = 13
		}
	}), []Failure{TermsFell, Admitted}},
	{"the old one comes back with its term", Cut, append(seen(),
		Event{Kind: Started, Contender: "a", At: 5200 * ms, Token: 11, PID: 4, Alone: true}), []Failure{TermsFell}},
	{"the first term is not larger than the drill's own", Cut, changed(seen(), func(e *Event) {
		if e.Contender == "a" && e.Token != 0 {
			e.Token = 10
		}
	}), []Failure{TermsFell}},

	{"a stale write of the drill's is admitted", Cut, append(seen(),
		Event{Kind: Wrote, At: 3350 * ms, Until: 3360 * ms, Token: 11}), []Failure{Admitted}},
	{"a stale write of the old one's is admitted", Cut, append(seen(),
		Event{Kind: Wrote, Contender: "a", At: 3350 * ms, Until: 3360 * ms, Token: 11, PID: 1}), []Failure{Overlap, Admitted}},
	{"no stale write was tried", Cut, without(seen(), func(e Event) bool { return e.Kind == Refused }), []Failure{Untried}},

	{"the other is never elected", Cut, without(seen(), func(e Event) bool {
		return e.At > 3100*ms && e.Kind != Closing
	}), []Failure{NoChange}},
	{"the old one is elected again", Resign, changed(without(seen(), func(e Event) bool { return e.Kind == Refused }), func(e *Event) {
		if e.Contender == "b" && e.At > 3100*ms {
			e.Contender = "a"
		}
	}), []Failure{NoChange}},
	{"nobody ever leads", Cut, []Event{{Kind: Closing, At: 5000 * ms}}, []Failure{NoChange}},
	{"the old one never follows after the heal", Cut, without(seen(), func(e Event) bool {
		return e.Kind == InLine && e.At > 3300*ms
	}), []Failure{NotFollowed}},
	{"the old one never follows after CONT", Freeze, without(seen(), func(e Event) bool {
		return e.Kind == InLine && e.At > 3300*ms
	}), []Failure{NotFollowed}},
	{"it was in line before it was mended", Freeze, changed(seen(), func(e *Event) {
		if e.Kind == InLine && e.At > 3300*ms {
			e.At = 3390 * ms
		}
	}), []Failure{NotFollowed}},
	{"it was never mended", Freeze, without(seen(), is(Mended)), []Failure{NotFollowed}},
	{"it doesn't follow after it has resigned", Resign, without(seen(), func(e Event) bool {
		return e.Kind == InLine && e.At > 3000*ms
	}), []Failure{NotFollowed}},
}

func TestJudge(t *testing.T) {
	for _, v := range verdicts {
		for _, order := range []string{"as it came", "backwards"} {
			events := slices.Clone(v.events)
			if order == "backwards" {
				slices.Reverse(events)
			}
			r := Judge(Case{Fault: v.fault, TTL: 3 * time.Second, Before: 10}, events)
			if !slices.Equal(r.Failures, v.want) {
				t.Errorf("%s, %s: %v, want %v\n%+v", v.name, order, r.Failures, v.want, r)
			}
		}
	}
}

func TestJudgeMeasures(t *testing.T) {
	r := Judge(Case{Fault: Cut, TTL: 3 * time.Second, Before: 10}, seen())
	if r.Gap != 200*ms || r.Change != 2200*ms || r.Struck != 1000*ms {
		t.Errorf("gap %v, change %v, struck at %v", r.Gap, r.Change, r.Struck)
	}
	if r.Tried != 2 || r.Stopped != 2 || r.Follows == nil || *r.Follows != 200*ms {
		t.Errorf("%d of %d refused, follows after %v", r.Stopped, r.Tried, r.Follows)
	}
	want := []Term{
		{Contender: "a", Token: 11, From: 200 * ms, To: 3000 * ms, EndedBy: "cut"},
		{Contender: "b", Token: 12, From: 3200 * ms, To: 5100 * ms, EndedBy: "end"},
	}
	for i, w := range want {
		if g := r.Terms[i]; g.Contender != w.Contender || g.Token != w.Token || g.From != w.From || g.To != w.To || g.EndedBy != w.EndedBy {
			t.Errorf("term %d: %+v, want %+v", i, g, w)
		}
	}
}

// TestJudgeSaysForHowLong: of two that ran at once.
func TestJudgeSaysForHowLong(t *testing.T) {
	events := append(seen(), Event{Kind: Beat, Contender: "a", At: 4000 * ms, Token: 11, PID: 1})
	for i := range events {
		if e := &events[i]; e.Kind == Ended && e.Contender == "a" {
			e.At = 4100 * ms
		}
	}
	r := Judge(Case{Fault: Cut, Before: 10}, events)
	want := Meeting{Tokens: [2]backends.Token{11, 12}, From: 3200 * ms, For: 900 * ms}
	if len(r.Meetings) != 1 || r.Meetings[0] != want || r.Gap != 0 {
		t.Errorf("%+v, want %+v; gap %v", r.Meetings, want, r.Gap)
	}
}
