package cmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"flockd/backends"
)

// stamp is how a time is shown.
const stamp = "2006-01-02 15:04:05 -0700"

// cleanClaims are claims whose foreign text is fit for a terminal.
func cleanClaims(claims []backends.Claim) []backends.Claim {
	claims = slices.Clone(claims)
	for i := range claims {
		for _, o := range []*backends.Owner{&claims[i].Owner, &claims[i].Notice.By} {
			o.User, o.Host, o.Command, o.Note = clean(o.User), clean(o.Host), clean(o.Command), clean(o.Note)
		}
		claims[i].Notice.Reason = clean(claims[i].Notice.Reason)
	}
	return claims
}

// heldText says who is in the way and since when, as far as the store can tell:
// "held by root@web2 (pid 4711, report.sh) for 2d3h, since …; 3 waiting".
func heldText(held *backends.HeldError) string {
	var parts []string
	switch {
	case len(held.Holders) > 0:
		parts = append(parts, holderText(held))
	case held.Next != nil:
		parts = append(parts, "nobody holds it, next in line is "+ownerText(held.Next.Owner)+sinceText("in line", held.AsOf, held.Next.Asked))
	default:
		parts = append(parts, "taken")
	}
	if len(held.Holders) > 0 {
		if c := held.Holders[0]; c.State != backends.Cooling && !c.Renewed.IsZero() {
			parts = append(parts, "renewed "+age(held.AsOf.Sub(c.Renewed))+" ago")
		}
	}
	if held.Waiters > 0 {
		parts = append(parts, fmt.Sprintf("%d waiting", held.Waiters))
	}
	return strings.Join(parts, "; ")
}

func holderText(held *backends.HeldError) string {
	c := held.Holders[0]
	who := ownerText(c.Owner)
	if others := len(held.Holders) - 1; others > 0 {
		who += fmt.Sprintf(" and %d more", others)
	}
	if c.State == backends.Cooling {
		return "cooling" + untilText(held.AsOf, c.Expires) + " after " + who + sinceText("", held.AsOf, c.Granted)
	}
	return "held by " + who + sinceText("", held.AsOf, c.Granted)
}

// sinceText is " for 2d3h, since 2026-11-27 01:00:02 +0800"; empty: the store
// can't tell.
func sinceText(what string, now, since time.Time) string {
	if since.IsZero() {
		return ""
	}
	if what != "" {
		what = " " + what
	}
	return fmt.Sprintf("%s for %s, since %s", what, age(now.Sub(since)), since.Local().Format(stamp))
}

func untilText(now, until time.Time) string {
	if until.IsZero() {
		return ""
	}
	return fmt.Sprintf(" for another %s, until %s,", age(until.Sub(now)), until.Local().Format(stamp))
}

// ownerText is "root@web2 (pid 4711, report.sh)", with the note if there is one.
func ownerText(o backends.Owner) string {
	text := fmt.Sprintf("%s@%s (pid %d, %s", o.User, o.Host, o.PID, o.Command)
	if o.Note != "" {
		text += ", note: " + o.Note
	}
	return text + ")"
}
