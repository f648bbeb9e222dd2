package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // 0.4 MB, for hosts and containers that have no zones; those of a host win
	"unicode"

	"flockd/backends"
)

// parseRun checks the ID of a run.
func parseRun(text string) (string, error) {
	if text == "" {
		return "", errEmpty
	}
	return text, backends.CheckRun(text)
}

// parsePeriod reads hour, day, week, month, or a part of a day. A whole day is day, which
// begins at midnight in a time zone.
func parsePeriod(text string) (backends.Period, error) {
	switch text {
	case "hour":
		return backends.Period{Unit: backends.Fixed, Every: time.Hour}, nil
	case "day", "week", "month":
		return backends.Period{Unit: backends.Unit(text)}, nil
	}
	d, err := parseDuration(text)
	switch {
	case errors.Is(err, errDuration):
		return backends.Period{}, fmt.Errorf("%w, nor hour, day, week or month", err)
	case err != nil:
		return backends.Period{}, err
	case d == day:
		return backends.Period{Unit: backends.Day}, nil
	case d > day:
		return backends.Period{}, errors.New("longer than a day there is week and month")
	case d < time.Second:
		return backends.Period{}, errors.New("too short: 1s at least")
	case !divides(d):
		return backends.Period{}, fmt.Errorf("a day is no multiple of it, but of %s and %s", short(part(d, -1)), short(part(d, 1)))
	}
	return backends.Period{Unit: backends.Fixed, Every: d}, nil
}

// divides reports whether a day has so many periods of d, in whole seconds.
func divides(d time.Duration) bool { return day%d == 0 && d%time.Second == 0 }

// part is the next part of a day that is shorter or, up, longer than d.
func part(d time.Duration, up time.Duration) time.Duration {
	d = d.Truncate(time.Second)
	if up < 0 && divides(d) {
		return d
	}
	for d += up * time.Second; !divides(d); {
		d += up * time.Second
	}
	return d
}

// longestOf is how long a period can last: the clocks may be put back in it.
func longestOf(p backends.Period) time.Duration {
	switch p.Unit {
	case backends.Day:
		return day + time.Hour
	case backends.Week:
		return 7*day + time.Hour
	case backends.Month:
		return 31*day + time.Hour
	}
	return p.Every
}

// localNames are zones that may be another on each host.
var localNames = []string{"Local", "localtime", "posixrules"}

// parseZone finds a time zone by its name.
func parseZone(text string) (*time.Location, error) {
	switch {
	case text == "":
		return nil, errEmpty
	case slices.Contains(localNames, text):
		return nil, errors.New("hosts may differ in it, and all must agree: Europe/Berlin, for example, or UTC")
	}
	zone, err := time.LoadLocation(text)
	if err == nil {
		return zone, nil
	}
	for _, name := range []string{strings.ToUpper(text), capitals(text)} {
		if _, err := time.LoadLocation(name); err == nil && !slices.Contains(localNames, name) {
			return nil, fmt.Errorf("no time zone: did you mean %s?", name)
		}
	}
	return nil, errors.New("no time zone such as Europe/Berlin or UTC")
}

// capitals is text with a capital at the start of each word, as zones are named.
func capitals(text string) string {
	start := true
	return strings.Map(func(r rune) rune {
		defer func() { start = !unicode.IsLetter(r) }()
		if start {
			return unicode.ToUpper(r)
		}
		return unicode.ToLower(r)
	}, text)
}
