package etcd

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"flockd/backends"
)

// quoted is how many characters of what others say are shown: enough for what etcd says,
// in a line or two.
const quoted = 200

// cut is what others say, fit for a message of ours: in one line, and of a length to be read.
func cut(text string) string {
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

// quote is cut without the password, in whichever of the usual ways it is written.
func (c *cluster) quote(text string) string {
	if c.password == "" {
		return cut(text)
	}
	quotes := strconv.Quote(c.password)
	ascii := strconv.QuoteToASCII(c.password)
	for _, form := range []string{
		c.password, quotes[1 : len(quotes)-1], ascii[1 : len(ascii)-1], url.QueryEscape(c.password), url.PathEscape(c.password),
	} {
		text = strings.ReplaceAll(text, form, backends.Hidden)
	}
	return cut(text)
}
