package cmd

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

const day = 24 * time.Hour

// longest is far from where sums of durations overflow, at 292 years: a hint may
// name nine times one that was given.
const longest = 30 * 365 * day

var (
	errDuration = errors.New("not a duration such as 90s, 1h30m or 1d12h")
	errEmpty    = errors.New("it is empty: a variable that is missing here?")
)

// parseDuration reads Go's durations, "d" for days in front of them, and bare
// numbers as seconds. It may be negative.
func parseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, errEmpty
	}
	if isNumber(text) {
		text += "s"
	}
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		return goDuration(text)
	}
	d, err := goDuration(days + "h")
	if err != nil || !isNumber(days) {
		return 0, errDuration
	}
	var more time.Duration
	if rest != "" {
		if more, err = goDuration(rest); err != nil || strings.ContainsAny(rest[:1], "+-") {
			return 0, errDuration
		}
	}
	if strings.HasPrefix(days, "-") {
		more = -more
	}
	if d.Abs() > (math.MaxInt64-more.Abs())/24 {
		return 0, errors.New("too long")
	}
	return 24*d + more, nil
}

func isNumber(text string) bool {
	return text != "" && strings.Trim(text, "+-.0123456789") == ""
}

func goDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, errDuration
	}
	return d, nil
}

// atLeast is parseDuration for what has a least value.
func atLeast(least time.Duration) func(string) (time.Duration, error) {
	return func(text string) (time.Duration, error) {
		d, err := parseDuration(text)
		switch {
		case err != nil:
			return 0, err
		case d < 0 && least == 0:
			return 0, errors.New("negative")
		case d < least:
			return 0, fmt.Errorf("too short: %v at least", least)
		case d > longest:
			return 0, fmt.Errorf("too long: %d days at most", longest/day)
		}
		return d, nil
	}
}

// short is d as a flag would be given it: 5m and not 5m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// age shows how long something lasts, in its two largest units: 2d3h, 4m, 12s.
func age(d time.Duration) string {
	units := []struct {
		of   time.Duration
		name string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	for i, u := range units {
		if d < u.of {
			continue
		}
		text := fmt.Sprintf("%d%s", d/u.of, u.name)
		if i+1 < len(units) {
			if next := d % u.of / units[i+1].of; next > 0 {
				text += fmt.Sprintf("%d%s", next, units[i+1].name)
			}
		}
		return text
	}
	return "0s"
}
