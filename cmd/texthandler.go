package cmd

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// textHandler writes "flockd: message key=value: error" lines, each in one write.
type textHandler struct {
	out    io.Writer
	level  slog.Level
	clean  func(string) string
	prefix string // of the keys: the open groups
	attrs  string // written already
}

func (h *textHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString("flockd: " + h.clean(r.Message) + h.attrs)
	var why string
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			why += ": " + h.clean(err.Error())
		} else {
			h.write(&b, h.prefix, a)
		}
		return true
	})
	b.WriteString(why)
	b.WriteByte('\n')
	_, err := io.WriteString(h.out, b.String())
	return err
}

func (h *textHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	for _, a := range attrs {
		h.write(&b, h.prefix, a)
	}
	with := *h
	with.attrs += b.String()
	return &with
}

func (h *textHandler) WithGroup(name string) slog.Handler {
	with := *h
	if name != "" {
		with.prefix += name + "."
	}
	return &with
}

func (h *textHandler) write(b *strings.Builder, prefix string, a slog.Attr) {
	value := a.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range value.Group() {
			h.write(b, prefix, member)
		}
		return
	}
	if a.Key == "" {
		return
	}
	if value.Kind() == slog.KindDuration {
		value = slog.DurationValue(value.Duration().Round(time.Millisecond))
	}
	text := h.clean(value.String())
	if text == "" || strings.ContainsAny(text, " =\"") {
		text = strconv.Quote(text)
	}
	b.WriteString(" " + prefix + a.Key + "=" + text)
}
