package cmd

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"flockd/backends"
)

// printer writes flockd's own lines to stderr, as text or as JSON records.
type printer struct {
	log     *slog.Logger
	json    bool
	secrets []string // never shown
}

// newPrinter writes to w. Quiet leaves out what is no loss to miss, verbose adds
// what is of use when something is wrong.
func newPrinter(w io.Writer, json, quiet, verbose bool) *printer {
	level := slog.LevelInfo
	switch {
	case verbose:
		level = slog.LevelDebug
	case quiet:
		level = slog.LevelWarn
	}
	p := &printer{json: json}
	if json {
		p.log = slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: p.cleanAttr}))
	} else {
		p.log = slog.New(&textHandler{out: w, level: level, clean: p.clean})
	}
	return p
}

// say prints a line that reads well by itself; attrs are for JSON alone.
func (p *printer) say(level slog.Level, text string, attrs ...slog.Attr) {
	if !p.json {
		attrs = nil
	}
	p.log.LogAttrs(context.Background(), level, p.clean(text), attrs...)
}

// fail prints an error, once, with its hint.
func (p *printer) fail(err error, attrs ...slog.Attr) {
	p.say(slog.LevelError, err.Error(), attrs...)
	if hint := hintOf(err); hint != "" {
		p.say(slog.LevelError, "hint: "+hint)
	}
}

func hintOf(err error) string {
	var f *failure
	if errors.As(err, &f) && f.hint != "" {
		return f.hint
	}
	var refused *backends.RefusedError
	if errors.As(err, &refused) {
		return refused.Hint
	}
	return ""
}

// cleanAttr makes values what they are in text: clean, and durations with units.
func (p *printer) cleanAttr(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(p.clean(v))
	case error:
		a.Value = slog.StringValue(p.clean(v.Error()))
	case time.Duration:
		a.Value = slog.StringValue(v.String())
	}
	return a
}

// clean makes text fit for a terminal's line: foreign text is in it, and a
// store's error may repeat a secret.
func (p *printer) clean(text string) string {
	const shortest = 4 // a shorter one would hide half the words
	for _, secret := range p.secrets {
		if len(secret) >= shortest {
			text = strings.ReplaceAll(text, secret, backends.Hidden)
		}
	}
	return clean(text)
}

// clean drops what would move the cursor or turn the direction of writing, and
// joins lines.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\u2028' || r == '\u2029':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, strings.TrimRight(text, "\n"))
}
