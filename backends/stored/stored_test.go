package stored

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"flockd/backends"
)

// Whatever is in an owner or a notice, what is sent is ASCII, and read again as it was.
func TestTextsAreASCII(t *testing.T) {
	for _, text := range []string{"", "plain", `"\'%`, "ü", "工作", "🔒", "\u2028", "a\x00b", "\x80\xff", "\u007f"} {
		sent := encode(backends.Owner{Note: text})
		if strings.ContainsFunc(sent, func(r rune) bool { return r >= utf8.RuneSelf || r < ' ' }) {
			t.Errorf("%q is sent as %q", text, sent)
		}
		row, err := json.Marshal(map[string]string{"owner": sent})
		if err != nil {
			t.Fatal(err)
		}
		var read struct {
			Owner owner `json:"owner"`
		}
		if err := json.Unmarshal(row, &read); err != nil || read.Owner.Note != strings.ToValidUTF8(text, "\ufffd\ufffd") && read.Owner.Note != text {
			t.Errorf("%q came back as %q: %v", text, read.Owner.Note, err)
		}
	}
}

// Both ways in which servers say yes.
func TestFlags(t *testing.T) {
	for text, want := range map[string]flag{"true": true, "1": true, "false": false, "0": false, "null": false} {
		var f flag
		if err := json.Unmarshal([]byte(text), &f); err != nil || f != want {
			t.Errorf("%s is %v: %v", text, f, err)
		}
	}
}

// The first in line begins a tenth of a second after its turn has come, or 2 % of the hold
// later, and two seconds at most; those behind it look in proportion to where they stand now.
func TestOutlook(t *testing.T) {
	now := time.Now()
	two, nine := 2, 9
	for _, tt := range []struct {
		lasted, waited time.Duration
		ahead          int
		front          *int
		want           time.Duration
	}{
		{0, 0, 0, nil, 100 * time.Millisecond},
		{0, 4 * time.Second, 0, nil, 100 * time.Millisecond},
		{10 * time.Second, 5 * time.Second, 0, nil, 300 * time.Millisecond},
		{time.Hour, 0, 0, nil, 2 * time.Second},
		{0, 0, 9, nil, time.Second},
		{0, 0, 9, &nine, time.Second},
		{time.Hour, 0, 1, nil, 4 * time.Second},
		{time.Hour, 0, 9, &two, 300 * time.Millisecond},
	} {
		o := foresee(&backends.HeldError{AsOf: now, Ahead: tt.ahead, Holders: []backends.Claim{{Granted: now.Add(-tt.lasted)}}}, now)
		if got := o.after(tt.front, now.Add(tt.waited)); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
	nobody := foresee(&backends.HeldError{AsOf: now}, now)
	if got := nobody.after(nil, now.Add(time.Hour)); got != pollMin {
		t.Errorf("nobody holds: %v", got)
	}
}
