package cmd

import (
	"strings"
	"testing"

	"flockd/backends"
)

func TestParseToken(t *testing.T) {
	for text, want := range map[string]backends.Token{"1": 1, "1759363200000000": 1759363200000000, "9007199254740991": 1<<53 - 1} {
		if token, err := parseToken(text); token != want || err != nil {
			t.Errorf("%q is %d, %v", text, token, err)
		}
	}
	const digits, begin, end = "digits alone", "begin at 1", "below 2^53"
	for text, want := range map[string]string{
		"": "empty", "0": begin, "-1": begin, "-0": begin, "-99999999999999999999": begin,
		"9007199254740992": end, "9223372036854775808": end, "1" + strings.Repeat("0", 400): end,
		"+5": digits, "05": digits, "0x10": digits, "5 ": digits, " 5": digits, "5\n": digits, "1_000": digits,
		"1e3": digits, "5.0": digits, "five": digits, "٥": digits, "\xff": digits, " ": digits,
	} {
		if token, err := parseToken(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %d, %v; want %q", text, token, err, want)
		}
	}
}

func TestTokenOfTheFlagElseTheVariable(t *testing.T) {
	for _, c := range []struct {
		flag string
		env  []string
		want backends.Token
		err  string
	}{
		{"7", []string{"FLOCKD_TOKEN=8"}, 7, ""},
		{"7", []string{"FLOCKD_TOKEN=x"}, 7, ""},
		{"", []string{"FLOCKD_TOKEN=8"}, 8, ""},
		{"", []string{"FLOCKD_TOKEN="}, 0, "no token is given, and FLOCKD_TOKEN is empty"},
		{"", []string{"FLOCKD_TOKEN=8 "}, 0, `FLOCKD_TOKEN "8 ": a token is`},
		{"", nil, 0, "no token is given, and FLOCKD_TOKEN is not set"},
	} {
		flag := newToken()
		if c.flag != "" {
			if err := flag.Set(c.flag); err != nil {
				t.Fatal(err)
			}
		}
		token, err := tokenOf(flag, Streams{Env: c.env})
		if token != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %d, %v", c, token, err)
		}
	}
}
