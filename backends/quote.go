package backends

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

const (
	quoted = 200 // characters of what a server says: a line or two

	// telling is how many bytes in a row of a password are hidden, for a server may
	// cut off the rest: few enough to be of no use to anybody, and enough that the
	// words of a message are rarely among them.
	telling = 8
)

// Quote is what a server said, fit for a message of ours: in one line, of a length
// to be read, and without the password; empty: there is none.
func Quote(text, password string) string {
	text = text[:min(len(text), 10*quoted)]
	all := forms(password)
	for _, form := range all {
		text = strings.ReplaceAll(text, form, Hidden)
	}
	for _, form := range all {
		text = hide(text, form)
	}
	runes := []rune(strings.Map(printable, text))
	if len(runes) > quoted {
		return string(runes[:quoted]) + "…"
	}
	return string(runes)
}

// printable is r, or a space for what would move a terminal's cursor.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}

// forms are the ways in which a password may be written: as it is, with its line
// breaks made spaces, as Redis does in an error, and escaped.
func forms(password string) []string {
	if password == "" {
		return nil
	}
	spaced := strings.NewReplacer("\r", " ", "\n", " ").Replace(password)
	escaped := strconv.QuoteToASCII(password)
	return []string{
		password, spaced, strings.Map(printable, password),
		escaped[1 : len(escaped)-1], url.QueryEscape(password), url.PathEscape(password),
	}
}

// hide puts Hidden in the place of the secret, and of each part of it that
// is telling.
func hide(text, secret string) string {
	least := min(len(secret), telling)
	if least == 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		n := shared(text, secret)
		if n < least {
			b.WriteByte(text[0])
			text = text[1:]
			continue
		}
		b.WriteString(Hidden)
		text = text[n:]
	}
	return b.String()
}

// shared is how many bytes of the beginning of text stand somewhere in secret.
func shared(text, secret string) int {
	n := 0
	for n < len(text) && strings.Contains(secret, text[:n+1]) {
		n++
	}
	return n
}
