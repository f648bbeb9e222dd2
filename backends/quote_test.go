package backends

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// What a server says is shown without the password, in whichever way it writes it and
// wherever it cuts it off.
func TestQuoteHidesThePassword(t *testing.T) {
	for what, secret := range map[string]string{
		"short":         "s3kr",
		"long":          strings.Repeat("Kx7#qP0vZ!", 20),
		"of two lines":  "0first=part0\n1second=part1",
		"with a tab":    "Wq\tZw9;Wq\x01Zw8",
		"in two quotes": `'Gh"7Jk'`,
	} {
		for _, form := range append(forms(secret), secret[len(secret)/2:], secret[:min(len(secret), 128)]) {
			if len(form) < min(telling, len(secret)) {
				continue
			}
			text := Quote("so it is '"+form+"' that", secret)
			if !strings.Contains(text, Hidden) || strings.Contains(text, form) {
				t.Errorf("a password %s: %q", what, text)
			}
			for i := range len(form) - 3 {
				if strings.Contains(text, form[i:i+4]) {
					t.Errorf("a password %s: %q shows %q", what, text, form[i:i+4])
				}
			}
		}
	}
}

func TestQuoteIsALine(t *testing.T) {
	for text, want := range map[string]string{
		"ERR something new":                          "ERR something new",
		"ERR a\tb\r\nc\x1b[2J\x00\u202e\xff":         "ERR a b  c [2J  �",
		"ERR " + strings.Repeat("業", 300):            "ERR " + strings.Repeat("業", 196) + "…",
		"ERR " + strings.Repeat("a long text ", 1e6): "ERR " + strings.Repeat("a long text ", 17)[:196] + "…",
	} {
		for _, password := range []string{"", "not there"} {
			if got := Quote(text, password); got != want || !utf8.ValidString(got) {
				t.Errorf("%.60q: %q, want %q", text, got, want)
			}
		}
	}
}
