package backends_test

import (
	"strings"
	"testing"

	"flockd/backends"
)

func TestCheckKey(t *testing.T) {
	for key, ok := range map[string]bool{
		"a": true, "a/b": true, "a%2Fb": true, " ": true, "业务:订单-42": true, `'"; --`: true,
		strings.Repeat("k", 512): true,

		"": false, strings.Repeat("k", 513): false, strings.Repeat("业", 171): false,
		"a\nb": false, "a\x00": false, "\x7f": false, "\u0085": false, "a\xff": false, "\xc3": false,
	} {
		if err := backends.CheckKey(key); (err == nil) != ok {
			t.Errorf("CheckKey(%.20q) = %v", key, err)
		}
	}
}

func TestEscape(t *testing.T) {
	for key, want := range map[string]string{
		"a-Z_0.9": "a-Z_0.9", "a/b": "a%2Fb", "a/": "a%2F", "a%2Fb": "a%252Fb", "a b": "a%20b",
		".": "%2E", "..": "%2E.", "{a}": "%7Ba%7D", "é": "%C3%A9",
	} {
		if got := backends.Escape(key); got != want {
			t.Errorf("Escape(%q) = %q, want %q", key, got, want)
		}
	}
}

func FuzzEscape(f *testing.F) {
	for _, key := range []string{"", "a/b", "a%2Fb", "..", "ключ", "\xff", "+"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		escaped := backends.Escape(key)
		const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.%"
		if strings.Trim(escaped, plain) != "" || strings.HasPrefix(escaped, ".") {
			t.Errorf("Escape(%q) = %q", key, escaped)
		}
		if back, err := backends.Unescape(escaped); back != key || err != nil {
			t.Errorf("Unescape(%q) = %q, %v; want %q", escaped, back, err, key)
		}
	})
}

func TestUnescapeRefuses(t *testing.T) {
	if key, err := backends.Unescape("a%2"); err == nil {
		t.Errorf("Unescape = %q", key)
	}
}

func TestNewID(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := backends.NewID()
		if len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" || seen[id] {
			t.Fatalf("NewID = %q", id)
		}
		seen[id] = true
	}
}
