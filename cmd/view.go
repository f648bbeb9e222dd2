package cmd

import (
	"encoding/json"
	"slices"
	"time"

	"flockd/backends"
)

// What programs are shown of a key. Each field is always there, and null where it means
// nothing or the store can't tell; times are RFC 3339 in UTC.
type keyView struct {
	Key         string      `json:"key"`
	State       string      `json:"state"`
	AsOf        *time.Time  `json:"as_of"`
	Holders     []claimView `json:"holders"` // cooling ones too
	Waiters     []claimView `json:"waiters"` // first in line first
	LastRun     *runView    `json:"last_run"`
	LastSuccess *runView    `json:"last_success"`
}

type claimView struct {
	ID      string          `json:"id"`
	State   string          `json:"state"`
	Mode    string          `json:"mode"`
	Slots   *int            `json:"slots"`
	Slot    *int            `json:"slot"`
	Token   *backends.Token `json:"token"`
	Owner   ownerView       `json:"owner"`
	Asked   *time.Time      `json:"asked"`
	Granted *time.Time      `json:"granted"`
	Renewed *time.Time      `json:"renewed"`
	Expires *time.Time      `json:"expires"`
	Notice  *noticeView     `json:"notice"`
}

type ownerView struct {
	User    string `json:"user"`
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Command string `json:"command"`
	Note    string `json:"note"`
}

type noticeView struct {
	Kind   string    `json:"kind"`
	By     ownerView `json:"by"`
	Reason string    `json:"reason"`
	Force  bool      `json:"force"`
}

type runView struct {
	Owner  ownerView       `json:"owner"`
	Token  *backends.Token `json:"token"`
	Start  *time.Time      `json:"start"`
	End    *time.Time      `json:"end"`
	Class  string          `json:"class"`
	Exit   *int            `json:"exit"`
	Notice *noticeView     `json:"notice"`
}

// The states of a key. A newcomer is granted it at once only if it is free.
const (
	stateHeld    = "held"
	stateCooling = "cooling" // nobody holds it, and a --min-hold hasn't ended
	stateWaiting = "waiting" // nobody holds it, and the next in line hasn't taken its turn yet
	stateFree    = "free"
)

func stateOf(s backends.Status) string {
	state := stateFree
	for _, c := range s.Line {
		switch {
		case c.State == backends.Holding:
			return stateHeld
		case c.State == backends.Cooling:
			state = stateCooling
		case state == stateFree:
			state = stateWaiting
		}
	}
	return state
}

// split parts a line into who holds or cools, and who waits.
func split(line []backends.Claim) (holders, waiters []backends.Claim) {
	for _, c := range line {
		if c.State == backends.Waiting {
			waiters = append(waiters, c)
		} else {
			holders = append(holders, c)
		}
	}
	return holders, waiters
}

func viewOf(s backends.Status) keyView {
	holders, waiters := split(s.Line)
	return keyView{
		Key: s.Key, State: stateOf(s), AsOf: timeView(s.AsOf), Holders: claimViews(holders), Waiters: claimViews(waiters),
		LastRun: runViewOf(s.Last), LastSuccess: runViewOf(s.LastSuccess),
	}
}

func claimViews(claims []backends.Claim) []claimView {
	views := []claimView{}
	for _, c := range claims {
		v := claimView{
			ID: c.ID, State: string(c.State), Mode: string(c.Mode), Token: tokenView(c.Token), Owner: ownerViewOf(c.Owner), Notice: noticeViewOf(c.Notice),
			Asked: timeView(c.Asked), Granted: timeView(c.Granted), Renewed: timeView(c.Renewed), Expires: timeView(c.Expires),
		}
		if c.Mode == backends.Slots {
			v.Slots = &c.Slots
			if c.State != backends.Waiting {
				v.Slot = &c.Slot
			}
		}
		views = append(views, v)
	}
	return views
}

func runViewOf(r *backends.Run) *runView {
	if r == nil {
		return nil
	}
	v := &runView{
		Owner: ownerViewOf(r.Owner), Token: tokenView(r.Token), Start: timeView(r.Start), End: timeView(r.End),
		Class: clean(r.Class), Notice: noticeViewOf(r.Notice),
	}
	if !slices.Contains(unknownEnds, r.Class) {
		v.Exit = &r.Exit
	}
	return v
}

func noticeViewOf(n backends.Notice) *noticeView {
	if n == (backends.Notice{}) {
		return nil
	}
	return &noticeView{clean(string(n.Kind)), ownerViewOf(n.By), clean(n.Reason), n.Force}
}

func ownerViewOf(o backends.Owner) ownerView {
	return ownerView{clean(o.User), clean(o.Host), o.PID, clean(o.Command), clean(o.Note)}
}

func tokenView(t backends.Token) *backends.Token {
	if t == 0 {
		return nil
	}
	return &t
}

func timeView(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// unchanged is equal for two views between which nothing happened but renewals.
func (v keyView) unchanged() string {
	v.AsOf = nil
	v.Holders, v.Waiters = timeless(v.Holders), timeless(v.Waiters)
	text, _ := json.Marshal(v) // plain values
	return string(text)
}

// timeless leaves out the times, which a store may know to the moment of the look only.
func timeless(claims []claimView) []claimView {
	claims = slices.Clone(claims)
	for i := range claims {
		claims[i].Asked, claims[i].Granted, claims[i].Renewed, claims[i].Expires = nil, nil, nil, nil
	}
	return claims
}
