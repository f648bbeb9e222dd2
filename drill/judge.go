package drill

import (
	"cmp"
	"slices"
	"time"

	"flockd/backends"
)

// Judge says what the events of a drill come to. Their order doesn't matter.
func Judge(c Case, events []Event) Report {
	r, events := follow(c, events)
	r.countWrites(events)
	r.nameEnds(events)
	r.Failures = r.failures()
	return r
}

// follow is who led when, and the change among them. It returns the events in their order.
func follow(c Case, events []Event) (Report, []Event) {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	r := Report{Case: c, Terms: termsOf(events), Old: -1, New: -1}
	r.Meetings = meetings(r.Terms)
	if len(r.Meetings) == 0 {
		clamp(r.Terms)
	}
	r.findChange(events)
	r.findFollower(events)
	return r, events
}

// termsOf are the commands that ran, in the order in which they began.
func termsOf(events []Event) (terms []Term) {
	for _, e := range events {
		if e.Kind == Started {
			terms = append(terms, Term{
				Contender: e.Contender, Token: e.Token, From: e.At, To: e.At, seen: e.At, alone: e.Alone, pid: e.PID, id: e.ID,
			})
		}
	}
	for i := range terms {
		t := &terms[i]
		for _, e := range events {
			switch {
			case e.PID != t.pid || e.Contender != t.Contender:
			case e.Kind == Ended:
				t.To, t.ended = e.At, true
			case e.Kind == Beat:
				t.seen = max(t.seen, e.At)
			case e.Kind == Wrote, e.Kind == Refused:
				t.seen = max(t.seen, e.Until)
			}
		}
		if !t.ended {
			t.To = t.seen
		}
	}
	return terms
}

// meetings are the commands that ran at once: one lived after another one had begun, or was
// refused the lock.
func meetings(terms []Term) (all []Meeting) {
	for j, later := range terms {
		met := false
		for _, earlier := range terms[:j] {
			if later.From <= earlier.seen {
				met = true
				all = append(all, meeting(earlier, later))
			}
		}
		switch {
		case met || later.alone:
		case j > 0:
			all = append(all, meeting(terms[j-1], later))
		case len(terms) > 1: // who has the lock had yet to say so
			all = append(all, meeting(later, terms[1]))
		default:
			all = append(all, Meeting{Tokens: [2]backends.Token{later.Token}, From: later.From})
		}
	}
	return all
}

func meeting(earlier, later Term) Meeting {
	return Meeting{
		Tokens: [2]backends.Token{earlier.Token, later.Token},
		From:   later.From,
		For:    max(min(earlier.To, later.To)-later.From, 0),
	}
}

// clamp ends each command before the next began, which got the lock that it had: the drill
// itself may have heard of its end late.
func clamp(terms []Term) {
	for i := range terms[:max(len(terms)-1, 0)] {
		terms[i].To = min(terms[i].To, terms[i+1].From)
	}
}

// findChange finds who led when the fault came, and who of the others was next.
func (r *Report) findChange(events []Event) {
	i := slices.IndexFunc(events, is(Struck))
	if i < 0 {
		return
	}
	struck := events[i]
	r.Struck = struck.At
	for i, t := range r.Terms {
		switch {
		case t.From <= struck.At && t.Contender == struck.Contender:
			r.Old = i
		case t.From > struck.At && t.Contender != struck.Contender && r.New < 0:
			r.New = i
		}
	}
	if r.Old >= 0 && r.New >= 0 {
		next := r.Terms[r.New].From
		r.Gap, r.Change = max(next-r.Terms[r.Old].To, 0), next-struck.At
	}
}

func is(kind Kind) func(Event) bool { return func(e Event) bool { return e.Kind == kind } }

// countWrites counts the writes that came after one with a larger token, and those of them
// that were refused.
func (r *Report) countWrites(events []Event) {
	for _, e := range events {
		if e.Kind == Refused {
			r.Tried++
			r.Stopped++
		}
	}
	wrote := slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return e.Kind != Wrote })
	for _, e := range wrote {
		if slices.ContainsFunc(wrote, func(before Event) bool { return before.Token > e.Token && before.Until < e.At }) {
			r.Tried++
		}
	}
}

// findFollower finds the old leader in line, after it could go on, or elected anew: on a busy
// host the next one may have lost its lease meanwhile.
func (r *Report) findFollower(events []Event) {
	since, ok := r.followsSince(events)
	if !ok {
		return
	}
	who := r.Terms[r.Old].Contender
	for _, e := range events {
		if (e.Kind == InLine || e.Kind == Started) && e.Contender == who && e.At >= since {
			after := e.At - since
			r.Follows = &after
			return
		}
	}
}

// followsSince is from when on the old leader may stand in line again.
func (r *Report) followsSince(events []Event) (since time.Duration, ok bool) {
	if r.New < 0 || r.Fault == Kill {
		return 0, false
	}
	if r.Fault == Resign {
		return r.Struck, true
	}
	i := slices.IndexFunc(events, is(Mended))
	if i < 0 {
		return 0, false
	}
	return events[i].At, true
}

// nameEnds says what each command was ended by.
func (r *Report) nameEnds(events []Event) {
	closing := slices.IndexFunc(events, is(Closing))
	for i := range r.Terms {
		t := &r.Terms[i]
		switch {
		case i == r.Old && t.To >= r.Struck:
			t.EndedBy = string(r.Fault)
		case closing >= 0 && (t.To >= events[closing].At || !t.ended):
			t.EndedBy = "end"
		default:
			t.EndedBy = "other"
		}
	}
}

func (r *Report) failures() (all []Failure) {
	add := func(failed bool, f Failure) {
		if failed {
			all = append(all, f)
		}
	}
	add(len(r.Meetings) > 0, Overlap)
	add(!r.grow(), TermsFell)
	add(r.Stopped < r.Tried, Admitted)
	add(r.New < 0, NoChange)
	whole := r.New >= 0 && len(r.Meetings) == 0 // else it ended before the rest could come
	add(whole && r.Tried == 0, Untried)
	add(whole && r.Fault != Kill && r.Follows == nil, NotFollowed)
	return all
}

// grow reports whether each term is larger than the one before, and the first than the drill's
// own hold.
func (r *Report) grow() bool {
	last := r.Before
	for _, t := range r.Terms {
		if t.Token <= last {
			return false
		}
		last = t.Token
	}
	return true
}
