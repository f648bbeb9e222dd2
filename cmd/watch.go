package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Between two looks of a watch there is a pause of watchEvery at least, and of so many
// times as long as the look took, which bounds the load on a store with many keys. After a
// look that failed it is as long as that took, so that a store's return shows soon.
const (
	watchEvery = time.Second
	watchPause = 9
)

// picture is what one look at a store shows.
type picture struct {
	text   string // for people
	things []thing
}

// thing is a key or store, for programs.
type thing struct {
	name   string
	json   any
	same   string // equal as long as nothing has happened
	hidden bool   // not shown unless it was before
}

// show prints one look, or watches.
func (q *query) show(ctx context.Context, watch bool, look func(context.Context) (picture, error)) error {
	if watch {
		return (&watching{query: q, look: look, seen: map[string]thing{}}).run(ctx)
	}
	p, err := look(ctx)
	switch {
	case err != nil:
		return err
	case q.json.of:
		return q.printJSON(p.things[0].json)
	}
	_, err = q.Stdout.WriteString(p.text)
	return err
}

// watching looks at a store until a signal ends it.
type watching struct {
	*query
	look func(context.Context) (picture, error)

	seen   map[string]thing // by name, as printed last
	latest picture
	away   time.Time // since when the store is; zero: it isn't
}

func (w *watching) run(ctx context.Context) error {
	ctx, stop := whileRead(ctx, w.Stdout)
	defer stop()
	screen := w.screen()
	for first := true; ; first = false {
		began := time.Now()
		p, err := w.look(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && (first || isFinal(err)):
			return err
		case err != nil:
			w.sayAway(began, err, screen)
		default:
			w.sayBack(screen)
			err = w.draw(p, screen)
		}
		if err != nil && w.away.IsZero() {
			return err
		}
		timer := time.NewTimer(w.pause(time.Since(began)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pause is how long to wait after a look that took so long.
func (w *watching) pause(took time.Duration) time.Duration {
	if w.away.IsZero() {
		took *= watchPause
	}
	return max(watchEvery, took)
}

// screen is the terminal to draw on; nil: there is none.
func (w *watching) screen() *screen {
	if w.json.of {
		return nil
	}
	return screenOf(w.Stdout, w.getenv("TERM"))
}

func (w *watching) draw(p picture, screen *screen) error {
	w.latest = p
	changed := w.changed(p)
	switch {
	case screen != nil:
		return screen.draw(w.Stdout, p.text)
	case w.json.of:
		return w.printLines(changed)
	case len(changed) == 0:
		return nil
	}
	text := p.text
	if strings.Count(text, "\n") != 1 { // an empty line sets off what has several
		text += "\n"
	}
	_, err := w.Stdout.WriteString(text)
	return err
}

// changed are the things to which something has happened since they were printed.
func (w *watching) changed(p picture) []thing {
	var changed []thing
	for _, t := range p.things {
		was, known := w.seen[t.name]
		if known && was.same == t.same || t.hidden && (!known || was.hidden) {
			continue
		}
		w.seen[t.name] = t
		changed = append(changed, t)
	}
	return changed
}

func (w *watching) printLines(things []thing) error {
	var b bytes.Buffer
	for _, t := range things {
		if err := writeLine(&b, t.json); err != nil {
			return err
		}
	}
	_, err := w.Stdout.Write(b.Bytes())
	return err
}

// writeLine writes v as JSON in one line.
func writeLine(b *bytes.Buffer, v any) error {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// sayAway says that the store gives no answer, once where nothing is drawn over, else on top,
// where there is always room.
func (w *watching) sayAway(now time.Time, err error, screen *screen) {
	again := !w.away.IsZero()
	if !again {
		w.away = now
	}
	if screen != nil {
		text := "no answer for " + age(time.Since(w.away)) + ": " + w.print.clean(err.Error()) + "\n\n" + w.latest.text
		screen.draw(w.Stdout, text)
	} else if !again {
		w.print.say(slog.LevelWarn, err.Error()+"; asking again")
	}
}

func (w *watching) sayBack(screen *screen) {
	if !w.away.IsZero() && screen == nil {
		w.print.say(slog.LevelInfo, "the store answers again, after "+age(time.Since(w.away)))
	}
	w.away = time.Time{}
}

// draw shows as much of text as there is room for, unless others have the screen. The cursor
// stays below it.
func (s *screen) draw(out *os.File, text string) error {
	if !s.ours() {
		return nil
	}
	const home, below = "\x1b[H", "\x1b[J"
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if room := s.rows() - 1; len(lines) > room && room > 1 {
		more := fmt.Sprintf("... %d more lines", len(lines)-room+1)
		lines = append(lines[:room-1], more)
	}
	var b strings.Builder
	b.WriteString(home)
	for _, line := range lines {
		b.WriteString(cut(line, s.columns()-1) + "\x1b[K\n")
	}
	b.WriteString(below)
	_, err := out.WriteString(b.String())
	return err
}

// rows is how high the screen is now.
func (s *screen) rows() int {
	const usual = 24
	size, err := unix.IoctlGetWinsize(s.fd, unix.TIOCGWINSZ)
	if err != nil || size.Row == 0 {
		return usual
	}
	return int(size.Row)
}
