package cmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"flockd/backends"
	"flockd/runner"
)

// sheet is what people are shown of one thing, a line for each fact.
type sheet struct{ strings.Builder }

func (s *sheet) line(label, format string, args ...any) {
	fmt.Fprintf(s, "%-14s %s\n", label, clean(fmt.Sprintf(format, args...)))
}

// when adds a time; one that the store can't tell is left out.
func (s *sheet) when(label string, now, at time.Time) {
	if !at.IsZero() {
		s.line(label, "%s", when(now, at))
	}
}

// when is "2026-11-27 01:00:02 +0800 (2d3h ago)", or "(in 4m)".
func when(now, at time.Time) string {
	text := at.Local().Format(stamp)
	switch d := now.Sub(at); {
	case now.IsZero():
		return text
	case d < 0:
		return text + " (in " + age(-d) + ")"
	default:
		return text + " (" + age(d) + " ago)"
	}
}

// statusText is all that is known of a key; where says where its store is.
func statusText(status backends.Status, where string) string {
	var s sheet
	holders, waiters := split(status.Line)
	s.line("key", "%s", status.Key)
	s.line("state", "%s", stateText(status))
	s.line("store", "%s", where)
	for _, c := range holders {
		s.WriteByte('\n')
		s.holder(status.AsOf, c)
	}
	if len(waiters) > 0 {
		s.WriteByte('\n')
	}
	for i, c := range waiters {
		s.waiter(status.AsOf, i+1, c)
	}
	if status.Last != nil || status.LastSuccess != nil {
		s.WriteByte('\n')
	}
	s.runs(status)
	return s.String()
}

// stateText is "held by 2, 3 in line".
func stateText(status backends.Status) string {
	holders, waiters := split(status.Line)
	text := stateOf(status)
	switch text {
	case stateHeld:
		if len(holders) > 1 {
			text += fmt.Sprintf(" by %d", len(holders))
		}
	case stateWaiting:
		text += ": nobody holds it"
	}
	if len(waiters) > 0 {
		text += fmt.Sprintf(", %d in line", len(waiters))
	}
	return text
}

func (s *sheet) holder(now time.Time, c backends.Claim) {
	if c.State == backends.Cooling {
		s.line("cooling", "after %s", namedOwner(c.Owner))
	} else {
		s.line("holder", "%s", namedOwner(c.Owner))
	}
	s.note(c.Owner)
	s.line("  mode", "%s", modeText(c))
	s.line("  token", "%d", c.Token)
	s.line("  id", "%s", c.ID)
	s.when("  since", now, c.Granted)
	if c.State == backends.Cooling {
		s.when("  until", now, c.Expires)
	} else {
		s.when("  renewed", now, c.Renewed)
		s.when("  expires", now, c.Expires)
	}
	s.notice(c.Notice)
}

// shownID is as much of an ID as tells it from others in practice: break takes it.
const shownID = 12

func (s *sheet) waiter(now time.Time, place int, c backends.Claim) {
	label := ""
	if place == 1 {
		label = "waiting"
	}
	text := fmt.Sprintf("%d. %s", place, namedOwner(c.Owner))
	if !c.Asked.IsZero() {
		text += " for " + age(now.Sub(c.Asked))
	}
	s.line(label, "%s, %s, id %s", text, modeText(c), c.ID[:min(len(c.ID), shownID)])
	s.note(c.Owner)
	s.notice(c.Notice)
}

func (s *sheet) note(o backends.Owner) {
	if o.Note != "" {
		s.line("  note", "%s", o.Note)
	}
}

func (s *sheet) notice(n backends.Notice) {
	if n != (backends.Notice{}) {
		s.line("  asked", "%s %s", toDo(n), noticeText(n))
	}
}

// toDo is what a notice asks for.
func toDo(n backends.Notice) string {
	if n.Kind == backends.Resign {
		return "to resign"
	}
	return "to stop"
}

// noticeText is "by alice@ops1 (pid 77, flockd): reason".
func noticeText(n backends.Notice) string {
	text := "by " + namedOwner(n.By)
	if n.Kind != backends.Break && n.Kind != backends.Resign {
		text += ", " + string(n.Kind)
	}
	if n.Reason != "" {
		text += ": " + n.Reason
	}
	return text
}

func modeText(c backends.Claim) string {
	switch {
	case c.Mode != backends.Slots:
		return string(c.Mode)
	case c.State == backends.Waiting:
		return fmt.Sprintf("one of %d slots", c.Slots)
	}
	return fmt.Sprintf("slot %d of %d, counted from 0", c.Slot, c.Slots)
}

// namedOwner is ownerText without the note.
func namedOwner(o backends.Owner) string { return noDates.owner(o) }

func (s *sheet) runs(status backends.Status) {
	last, success := status.Last, status.LastSuccess
	if last != nil {
		s.line("last run", "%s", namedOwner(last.Owner))
		s.run(status.AsOf, last)
	}
	switch {
	case success == nil:
	case last != nil && last.Token == success.Token:
		s.line("last success", "the same")
	default:
		s.line("last success", "%s", namedOwner(success.Owner))
		s.run(status.AsOf, success)
	}
}

func (s *sheet) run(now time.Time, r *backends.Run) {
	s.note(r.Owner)
	s.line("  outcome", "%s", runText(r))
	if r.Notice != (backends.Notice{}) {
		if r.Class == backends.Broken {
			s.line("  removed", "%s", noticeText(r.Notice))
		} else {
			s.notice(r.Notice)
		}
	}
	s.when("  start", now, r.Start)
	if !r.End.IsZero() {
		s.line("  end", "%s", when(now, r.End)+took(r))
	}
	s.line("  token", "%d", r.Token)
}

func took(r *backends.Run) string {
	if r.Start.IsZero() || r.End.Before(r.Start) {
		return ""
	}
	return ", after " + age(r.End.Sub(r.Start))
}

// runText is "finished, exit 0".
func runText(r *backends.Run) string {
	if slices.Contains(unknownEnds, r.Class) {
		return r.Class
	}
	return fmt.Sprintf("%s, exit %d", r.Class, r.Exit)
}

// endText is "exited with 1", "was stopped (max-runtime)" or "was broken by alice@ops1 (pid 77, flockd): reason".
func endText(r *backends.Run) string {
	switch {
	case r.Class == string(runner.Finished):
		return fmt.Sprintf("exited with %d", r.Exit)
	case r.Class == backends.Broken:
		return "was broken " + noticeText(r.Notice)
	case r.Notice != backends.Notice{}:
		return fmt.Sprintf("was asked %s %s (%s)", toDo(r.Notice), noticeText(r.Notice), runText(r))
	}
	return fmt.Sprintf("didn't succeed (%s)", runText(r))
}
