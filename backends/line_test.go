package backends_test

import (
	"strings"
	"testing"

	"flockd/backends"
)

// claims reads a line: X exclusive, S shared, 2 and 3 slots of that many.
func claims(line string) (all []backends.Claim) {
	for _, c := range strings.Fields(line) {
		switch c {
		case "X":
			all = append(all, backends.Claim{Mode: backends.Exclusive})
		case "S":
			all = append(all, backends.Claim{Mode: backends.Shared})
		default:
			all = append(all, backends.Claim{Mode: backends.Slots, Slots: int(c[0] - '0')})
		}
	}
	return all
}

func TestFits(t *testing.T) {
	for _, tt := range []struct {
		front string
		fit   string // those of X, S, 2 and 3 that fit behind it
	}{
		{"", "X S 2 3"},
		{"X", ""},
		{"S", "S"},
		{"S S S", "S"},
		{"S X", ""},
		{"X S", ""},
		{"S X S", ""},
		{"2", "2"},
		{"2 2", ""},
		{"3", "3"},
		{"3 3", "3"},
		{"3 3 3", ""},
		{"2 3", ""},
		{"S 2", ""},
		{"2 S", ""},
		{"3 X", ""},
	} {
		var fit []string
		for _, c := range []string{"X", "S", "2", "3"} {
			if backends.Fits(claims(c)[0], claims(tt.front)) {
				fit = append(fit, c)
			}
		}
		if got := strings.Join(fit, " "); got != tt.fit {
			t.Errorf("behind %q fit %q, want %q", tt.front, got, tt.fit)
		}
	}
}
