package stored

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"flockd/backends"
)

// failed names the request that err is about. Nil stays nil, and what names its key itself.
func failed(op, key string, err error) error {
	if err == nil || errors.Is(err, backends.ErrHeld) || errors.Is(err, backends.ErrStale) {
		return err
	}
	return fmt.Errorf("%s %q: %w", op, key, err)
}

// encode is v as JSON text in ASCII; v is one of our own plain types.
func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic("stored: " + err.Error())
	}
	return ascii(string(text))
}

// ascii is a text with the escapes of JSON for all that isn't ASCII.
func ascii(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

func noticeText(n backends.Notice) string {
	if n == (backends.Notice{}) {
		return ""
	}
	return encode(n)
}
