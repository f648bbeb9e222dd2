package backends

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxKey is the longest key, in bytes.
const MaxKey = 512

// CheckKey says what is wrong with a key: it is 1 to MaxKey bytes of UTF-8
// without control characters, and otherwise kept exactly.
func CheckKey(key string) error { return checkName("key", key) }

// CheckRun says what is wrong with the ID of a run: it is made like a key.
func CheckRun(id string) error { return checkName("run's ID", id) }

// CheckResource says what is wrong with the name of a resource of a [Register]: it is
// made like a key.
func CheckResource(name string) error { return checkName("resource", name) }

func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the %s is empty", what)
	case len(name) > MaxKey:
		return fmt.Errorf("the %s has %d bytes, %d at most", what, len(name), MaxKey)
	case !utf8.ValidString(name):
		return fmt.Errorf("the %s is not valid UTF-8", what)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("the %s has a control character", what)
	}
	return nil
}

// Escape makes a key one path element of plain ASCII: letters, digits, '-', '_'
// and '.' stay, but a leading '.'; every other byte becomes %XX. Different keys
// stay different, and none is a prefix path of another: "a", "a/b", "a/" and
// "a%2Fb" never meet.
func Escape(key string) string {
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			c == '-' || c == '_' || c == '.' && i > 0 {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return b.String()
}

// Unescape undoes Escape.
func Unescape(escaped string) (string, error) { return url.PathUnescape(escaped) }

// NewID makes an ID for one acquisition: 128 random bits as 32 hexadecimal digits.
func NewID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: see its documentation
	return hex.EncodeToString(b[:])
}
