package backends

import (
	"fmt"
	"time"
)

// Period is a repeating stretch of time, aligned to the calendar. The zero
// Period is none.
type Period struct {
	Unit  Unit
	Every time.Duration // with Unit Fixed: a divisor of 24 h, aligned to midnight UTC
}

// Unit is what a Period is aligned to.
type Unit string

const (
	Fixed Unit = "fixed"
	Day   Unit = "day"
	Week  Unit = "week" // from Monday
	Month Unit = "month"
)

// RunAt is the ID of the run that a grant at now (the store's clock) is for.
func (o Once) RunAt(now time.Time) string {
	if o.ID != "" {
		return o.ID
	}
	at := now.Add(o.Lead).UTC()
	if o.Zone != nil && o.Per.Unit != Fixed {
		at = at.In(o.Zone)
	}
	switch o.Per.Unit {
	case Day:
		return at.Format("2006-01-02")
	case Week:
		year, week := at.ISOWeek()
		return fmt.Sprintf("%d-W%02d", year, week)
	case Month:
		return at.Format("2006-01")
	}
	return at.Truncate(o.Per.Every).Format("2006-01-02T15:04:05Z")
}

// Reach is between which instants, each in whole microseconds, a grant is for the same run as
// one at now; a run by ID has none.
func (o Once) Reach(now time.Time) (first, last time.Time) {
	now = now.Truncate(time.Microsecond)
	return o.reach(now, -1).Add(time.Microsecond - 1).Truncate(time.Microsecond), o.reach(now, 1).Truncate(time.Microsecond)
}

// reach is the instant up to which, from now on in the direction of sign, the run stays
// the same.
func (o Once) reach(now time.Time, sign time.Duration) time.Time {
	const longest = time.Duration(1) << 52 // ns, 52 days: more than any period, and halved without a rest
	run, at := o.RunAt(now), now
	for step := longest; step > 0; step /= 2 {
		if next := at.Add(sign * step); o.RunAt(next) == run {
			at = next
		}
	}
	return at
}

// KeepFor is how long a success is kept; zero means for ever.
func (o Once) KeepFor() time.Duration {
	if o.Keep != 0 || o.ID != "" {
		return o.Keep
	}
	const day = 24 * time.Hour
	switch o.Per.Unit {
	case Day:
		return 2 * day
	case Week:
		return 14 * day
	case Month:
		return 62 * day
	}
	return 2 * o.Per.Every
}
