package cmd

import (
	"fmt"

	"flockd/backends"
)

// wish is how a run wants a key.
type wish struct {
	mode  backends.Mode
	slots int
}

// onlooker is the wish of whoever only wants to know.
var onlooker = wish{}

func (o *runOptions) wish() wish { return wish{o.mode, o.slots} }

// like reports whether c may hold the key beside it.
func (w wish) like(c *backends.Claim) bool {
	return w.mode != backends.Exclusive && c.Mode == w.mode && c.Slots == w.slots
}

// heldAs is how those who hold, of whom c is one, have the key: "held" where both sides
// want it alone, which goes without saying.
func (w wish) heldAs(c *backends.Claim, holders int) string {
	switch {
	case c.Mode == backends.Shared:
		return "held shared"
	case c.Mode == backends.Slots && w.like(c):
		return fmt.Sprintf("%d of %d slots held", holders, c.Slots)
	case c.Mode == backends.Slots:
		return fmt.Sprintf("held in slots of %d", c.Slots)
	case w.mode == backends.Shared, w.mode == backends.Slots:
		return "held exclusively"
	}
	return "held"
}

// unlike says why the run can't have the key beside those who hold it; empty: that is
// plain from how they do.
func (w wish) unlike(held *backends.HeldError) string {
	c := foremost(held)
	switch {
	case c == nil, len(held.Holders) == 0, w == onlooker:
		return ""
	case w.like(c) && (w.mode == backends.Shared || len(held.Holders) < w.slots):
		return "others are in line in front of this run"
	case w.like(c), c.Mode != backends.Shared && c.Mode != backends.Slots:
		return ""
	case w.mode == backends.Shared:
		return "this run wants to share it"
	case w.mode == backends.Slots:
		return fmt.Sprintf("this run wants slots of %d", w.slots)
	}
	return "this run wants it alone"
}
