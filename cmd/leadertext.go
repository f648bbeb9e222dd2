package cmd

import (
	"fmt"
	"time"

	"flockd/backends"
)

// leaderView is what leader shows programs, in the words of status but for the term.
type leaderView struct {
	Key         string      `json:"key"`
	Backend     string      `json:"backend"`
	BackendFrom string      `json:"backend_from"`
	State       string      `json:"state"`
	AsOf        *time.Time  `json:"as_of"`
	Leader      *reignView  `json:"leader"`
	Candidates  []claimView `json:"candidates"` // first in line first
	LastRun     *runView    `json:"last_run"`
}

// reignView is a term that lasts.
type reignView struct {
	ID      string         `json:"id"`
	Term    backends.Token `json:"term"`
	Owner   ownerView      `json:"owner"`
	Since   *time.Time     `json:"since"`
	Renewed *time.Time     `json:"renewed"`
	Expires *time.Time     `json:"expires"`
	Notice  *noticeView    `json:"notice"`
}

// picture is who leads. It is the same for as long as a term lasts, and while there is no leader.
func (q *leaderQuery) picture(status backends.Status) picture {
	text, same := q.noLeader(status), ""
	if c := leaderOf(status); c != nil {
		text, same = leaderText(status, c), c.ID
	}
	return picture{text: q.print.clean(text) + "\n", things: []thing{{name: status.Key, json: q.view(status), same: same}}}
}

func (q *leaderQuery) view(status backends.Status) leaderView {
	_, waiters := split(status.Line)
	v := leaderView{
		Key: status.Key, Backend: q.address(), BackendFrom: q.from(), State: stateOf(status), AsOf: timeView(status.AsOf),
		Candidates: claimViews(waiters), LastRun: runViewOf(status.Last),
	}
	if c := leaderOf(status); c != nil {
		v.Leader = &reignView{
			ID: c.ID, Term: c.Token, Owner: ownerViewOf(c.Owner), Since: timeView(c.Granted),
			Renewed: timeView(c.Renewed), Expires: timeView(c.Expires), Notice: noticeViewOf(c.Notice),
		}
	}
	return v
}

// leaderText is "root@web2 (pid 4711, daemon) leads svc, term 17, since 2026-11-27 01:00:02 +0800 (2d3h
// ago); renewed 11s ago; 2 candidates wait".
func leaderText(status backends.Status, c *backends.Claim) string {
	text := fmt.Sprintf("%s leads %s, term %d", ownerText(c.Owner), status.Key, c.Token)
	if !c.Granted.IsZero() {
		text += ", since " + when(status.AsOf, c.Granted)
	}
	if !c.Renewed.IsZero() && !status.AsOf.IsZero() {
		text += "; renewed " + age(status.AsOf.Sub(c.Renewed)) + " ago"
	}
	if c.Notice != (backends.Notice{}) {
		text += "; asked " + toDo(c.Notice) + " " + noticeText(c.Notice)
	}
	return text + "; " + candidatesText(status)
}

func candidatesText(status backends.Status) string {
	_, waiters := split(status.Line)
	switch n := len(waiters); n {
	case 0:
		return "no candidate waits"
	case 1:
		return "1 candidate waits"
	default:
		return fmt.Sprintf("%d candidates wait", n)
	}
}

// noLeader says that nobody has the key alone, and why.
func (q *query) noLeader(status backends.Status) string {
	text := status.Key + " has no leader: "
	switch {
	case q.unused != nil:
		return text + q.neverUsed()
	case len(status.Line) > 0:
		return text + heldText(heldOf(status, status.Line), onlooker)
	}
	text += "nobody holds the key"
	if r := status.Last; r != nil && !r.End.IsZero() {
		text += "; the last one was " + namedOwner(r.Owner) + ", until " + when(status.AsOf, r.End) + ": " + runText(r)
	}
	return text
}
