package cmd

import (
	"fmt"
	"slices"
	"time"

	"flockd/backends"
)

// stamp is how a time is shown.
const stamp = "2006-01-02 15:04:05 -0700"

// cleanClaims are claims whose foreign text is fit for a terminal.
func cleanClaims(claims []backends.Claim) []backends.Claim {
	claims = slices.Clone(claims)
	for i, c := range claims {
		claims[i].Owner, claims[i].Notice = cleanOwner(c.Owner), cleanNotice(c.Notice)
	}
	return claims
}

func cleanOwner(o backends.Owner) backends.Owner {
	o.User, o.Host, o.Command, o.Note = clean(o.User), clean(o.Host), clean(o.Command), clean(o.Note)
	return o
}

func cleanNotice(n backends.Notice) backends.Notice {
	n.By, n.Reason = cleanOwner(n.By), clean(n.Reason)
	return n
}

// brevity is how much of who is in the way doesn't fit.
type brevity int

const (
	inFull    brevity = iota
	noDates           // nor notes
	namesOnly         // user and host
)

// heldText says who is in the way of a wish and since when, as far as the store can tell:
// "held by root@web2 (pid 4711, report.sh) for 2d3h, since …; renewed 12s ago; 3 waiting".
func heldText(held *backends.HeldError, w wish) string {
	text := renewedText(held, w)
	if held.Waiters > 0 {
		text += fmt.Sprintf("; %d waiting", held.Waiters)
	}
	return text
}

// renewedText is heldText without those who wait.
func renewedText(held *backends.HeldError, w wish) string {
	text := inTheWay(held, w, inFull)
	if c := foremost(held); len(held.Holders) > 0 && c.State != backends.Cooling && !c.Renewed.IsZero() {
		text += "; renewed " + age(held.AsOf.Sub(c.Renewed)) + " ago"
	}
	if why := w.unlike(held); why != "" {
		text += "; " + why
	}
	return text
}

// inTheWay says who is, and since when.
func inTheWay(held *backends.HeldError, w wish, b brevity) string {
	c := foremost(held)
	switch {
	case c == nil:
		return "taken"
	case len(held.Holders) > 0:
		return holderText(held, w, b)
	}
	return "nobody holds it, next in line is " + b.owner(c.Owner) + b.since("in line", held.AsOf, c.Asked)
}

// foremost is the claim in the way that is named: a hold before those that cool, and the
// next in line where there is neither; nil: the store doesn't say.
func foremost(held *backends.HeldError) *backends.Claim {
	for i, c := range held.Holders {
		if c.State == backends.Holding {
			return &held.Holders[i]
		}
	}
	if len(held.Holders) > 0 {
		return &held.Holders[0]
	}
	return held.Next
}

// noteOf is the note of who is in the way.
func noteOf(held *backends.HeldError) string {
	if c := foremost(held); c != nil {
		return c.Owner.Note
	}
	return ""
}

func holderText(held *backends.HeldError, w wish, b brevity) string {
	c := foremost(held)
	who := b.owner(c.Owner)
	if others := len(held.Holders) - 1; others > 0 {
		who += fmt.Sprintf(" and %d more", others)
	}
	if c.State == backends.Cooling {
		return "cooling" + b.until(held.AsOf, c.Expires) + " after " + who + b.since("", held.AsOf, c.Granted)
	}
	return w.heldAs(c, len(held.Holders)) + " by " + who + b.since("", held.AsOf, c.Granted)
}

// since is " for 2d3h, since 2026-11-27 01:00:02 +0800"; empty: the store
// can't tell.
func (b brevity) since(what string, now, since time.Time) string {
	if since.IsZero() {
		return ""
	}
	if what != "" {
		what = " " + what
	}
	text := what + " for " + age(now.Sub(since))
	if b == inFull {
		text += ", since " + since.Local().Format(stamp)
	}
	return text
}

func (b brevity) until(now, until time.Time) string {
	if until.IsZero() {
		return ""
	}
	text := " for another " + age(until.Sub(now))
	if b == inFull {
		text += ", until " + until.Local().Format(stamp) + ","
	}
	return text
}

func (b brevity) owner(o backends.Owner) string {
	switch b {
	case namesOnly:
		return o.User + "@" + o.Host
	case noDates:
		o.Note = ""
	}
	return ownerText(o)
}

// ownerText is "root@web2 (pid 4711, report.sh)", with the note if there is one.
func ownerText(o backends.Owner) string {
	text := fmt.Sprintf("%s@%s (pid %d, %s", o.User, o.Host, o.PID, o.Command)
	if o.Note != "" {
		text += ", note: " + o.Note
	}
	return text + ")"
}
