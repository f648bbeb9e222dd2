package backends_test

import (
	"testing"
	"time"
	_ "time/tzdata"

	"flockd/backends"
)

func zone(t *testing.T, name string) *time.Location {
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func TestRunAt(t *testing.T) {
	berlin, apia := zone(t, "Europe/Berlin"), zone(t, "Pacific/Apia")
	every := func(d time.Duration) backends.Period { return backends.Period{Unit: backends.Fixed, Every: d} }
	of := func(unit backends.Unit) backends.Period { return backends.Period{Unit: unit} }
	const lead = 30 * time.Second
	for _, tt := range []struct {
		name string
		once backends.Once
		now  string
		want string
	}{
		{"an ID", backends.Once{ID: "v42", Per: of(backends.Day)}, "2026-11-27T01:00:00Z", "v42"},
		{"a quarter", backends.Once{Per: every(15 * time.Minute)}, "2026-11-27T01:14:59Z", "2026-11-27T01:00:00Z"},
		{"a quarter, led in", backends.Once{Per: every(15 * time.Minute), Lead: lead}, "2026-11-27T01:14:30Z", "2026-11-27T01:15:00Z"},
		{"a quarter, not yet", backends.Once{Per: every(15 * time.Minute), Lead: lead}, "2026-11-27T01:14:29Z", "2026-11-27T01:00:00Z"},
		{"8 h from midnight UTC, in no zone", backends.Once{Per: every(8 * time.Hour), Zone: berlin}, "2026-07-01T07:59:59+02:00", "2026-07-01T00:00:00Z"},
		{"any zone's now", backends.Once{Per: every(time.Hour)}, "2026-11-27T01:30:00+05:30", "2026-11-26T20:00:00Z"},
		{"a day in UTC", backends.Once{Per: of(backends.Day)}, "2026-11-27T23:59:59Z", "2026-11-27"},
		{"a day, led in", backends.Once{Per: of(backends.Day), Lead: lead}, "2026-11-27T23:59:30Z", "2026-11-28"},
		{"a day elsewhere", backends.Once{Per: of(backends.Day), Zone: berlin}, "2026-11-27T23:30:00Z", "2026-11-28"},
		{"a day of 23 h begins", backends.Once{Per: of(backends.Day), Zone: berlin}, "2026-03-28T23:00:00Z", "2026-03-29"},
		{"a day of 23 h ends", backends.Once{Per: of(backends.Day), Zone: berlin}, "2026-03-29T22:00:00Z", "2026-03-30"},
		{"a day of 25 h begins", backends.Once{Per: of(backends.Day), Zone: berlin}, "2026-10-24T22:00:00Z", "2026-10-25"},
		{"a day of 25 h, once", backends.Once{Per: of(backends.Day), Zone: berlin}, "2026-10-25T22:59:59Z", "2026-10-25"},
		{"a day of 25 h ends", backends.Once{Per: of(backends.Day), Zone: berlin}, "2026-10-25T23:00:00Z", "2026-10-26"},
		{"before a day that was skipped", backends.Once{Per: of(backends.Day), Zone: apia}, "2011-12-30T09:59:59Z", "2011-12-29"},
		{"after a day that was skipped", backends.Once{Per: of(backends.Day), Zone: apia}, "2011-12-30T10:00:00Z", "2011-12-31"},
		{"a week to Sunday", backends.Once{Per: of(backends.Week)}, "2026-11-29T23:59:59Z", "2026-W48"},
		{"a week from Monday", backends.Once{Per: of(backends.Week)}, "2026-11-30T00:00:00Z", "2026-W49"},
		{"a week of two years", backends.Once{Per: of(backends.Week)}, "2027-01-03T12:00:00Z", "2026-W53"},
		{"a month", backends.Once{Per: of(backends.Month), Zone: berlin}, "2026-10-31T23:00:00Z", "2026-11"},
	} {
		now, err := time.Parse(time.RFC3339, tt.now)
		if err != nil {
			t.Fatal(err)
		}
		if got := tt.once.RunAt(now); got != tt.want {
			t.Errorf("%s: at %s %q, want %q", tt.name, tt.now, got, tt.want)
		}
	}
}

// A success is kept for longer than its period lasts, whatever the day's length.
func TestKeepFor(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		once backends.Once
		want time.Duration
	}{
		{backends.Once{ID: "v42"}, 0},
		{backends.Once{ID: "v42", Keep: time.Hour}, time.Hour},
		{backends.Once{Per: backends.Period{Unit: backends.Fixed, Every: time.Hour}}, 2 * time.Hour},
		{backends.Once{Per: backends.Period{Unit: backends.Day}}, 2 * day},
		{backends.Once{Per: backends.Period{Unit: backends.Week}}, 14 * day},
		{backends.Once{Per: backends.Period{Unit: backends.Month}}, 62 * day},
		{backends.Once{Per: backends.Period{Unit: backends.Month}, Keep: 90 * day}, 90 * day},
	} {
		if got := tt.once.KeepFor(); got != tt.want {
			t.Errorf("%+v is kept for %v, want %v", tt.once, got, tt.want)
		}
	}
}

// A grant at either end of what a run reaches to is for it, and one beyond is not.
func TestReach(t *testing.T) {
	for _, at := range []string{"2026-03-29T03:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-12-31T23:59:59+01:00", "2026-02-01T00:00:00+01:00"} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []backends.Period{
			{Unit: backends.Fixed, Every: 15 * time.Minute}, {Unit: backends.Day}, {Unit: backends.Week}, {Unit: backends.Month},
		} {
			o := backends.Once{Per: p, Lead: 30 * time.Second, Zone: zone(t, "Europe/Berlin")}
			run := o.RunAt(now)
			first, last := o.Reach(now)
			if o.RunAt(first) != run || o.RunAt(first.Add(-time.Microsecond)) == run {
				t.Errorf("%+v: %q at %v reaches back to %v", p, run, now, first)
			}
			if o.RunAt(last) != run || o.RunAt(last.Add(time.Microsecond)) == run {
				t.Errorf("%+v: %q at %v reaches to %v", p, run, now, last)
			}
		}
	}
}
