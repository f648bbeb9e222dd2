package cmd

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"flockd/backends"
)

const (
	redrawEvery = time.Second
	changeEvery = 30 * time.Second // lines that tell of a change, at most
	repeatEvery = 5 * time.Minute  // lines while nothing changes
	silentAfter = 10 * time.Second // without an answer what the store said is history: two questions of the runner were lost
)

// wait is what is known of a wait. Times are of this host's monotonic clock.
type wait struct {
	key      string
	wish     wish
	began    time.Time
	held     *backends.HeldError // the last answer; nil: none yet
	answered time.Time           // when that came, or the wait began
	asking   bool                // a later question had no answer
}

// standing is what a change is of.
type standing struct {
	known  bool
	silent bool
	first  string // the claim in the way, of those the one that is named
	state  backends.State
	ahead  int
}

func (w *wait) heard(now time.Time, held *backends.HeldError) {
	w.asking = held == nil
	if held != nil {
		w.held, w.answered = held, now
	}
}

func (w *wait) silent(now time.Time) bool {
	return w.asking && now.Sub(w.answered) >= silentAfter
}

func (w *wait) standing(now time.Time) standing {
	s := standing{silent: w.silent(now)}
	if w.held == nil {
		return s
	}
	s.known, s.ahead = true, w.held.Ahead
	if c := foremost(w.held); c != nil {
		s.first, s.state = c.ID, c.State
	}
	return s
}

// asOf is the last answer with the store's clock put forward to now.
func (w *wait) asOf(now time.Time) *backends.HeldError {
	held := *w.held
	held.AsOf = held.AsOf.Add(now.Sub(w.answered))
	return &held
}

// line is the whole of it.
func (w *wait) line(now time.Time) string {
	text := "waiting for " + w.key + ": "
	if w.silent(now) {
		text += w.silence(now, inFull)
	} else {
		held := w.asOf(now)
		text += renewedText(held, w.wish) + "; " + place(held)
	}
	if d := now.Sub(w.began); d >= time.Second {
		text += "; waited " + age(d)
	}
	return text
}

// row is what fits into so many columns, what matters most first; empty: nothing is known.
func (w *wait) row(now time.Time, columns int, clean func(string) string) (text string) {
	if s := w.standing(now); !s.known && !s.silent {
		return ""
	}
	for _, form := range []struct {
		brevity
		key   string
		place bool
	}{{inFull, " for " + w.key, true}, {noDates, " for " + w.key, true}, {noDates, "", true}, {namesOnly, "", true}, {namesOnly, "", false}} {
		text = clean("flockd: waiting " + age(now.Sub(w.began)) + form.key + w.facts(now, form.brevity, form.place))
		if columnsOf(text) <= columns {
			break
		}
	}
	return cut(text, columns)
}

// cutsNote reports whether so many columns have no room for the note of who is in the way.
func (w *wait) cutsNote(now time.Time, columns int, clean func(string) string) bool {
	return w.held != nil && noteOf(w.held) != "" && columnsOf(w.row(now, math.MaxInt, clean)) > columns
}

func (w *wait) facts(now time.Time, b brevity, withPlace bool) string {
	if w.silent(now) {
		return ": " + w.silence(now, b)
	}
	held, at := w.asOf(now), ""
	if withPlace {
		at = ", " + place(held)
	}
	return at + ": " + inTheWay(held, w.wish, b)
}

// silence says since when nothing is known. What was known before doesn't age.
func (w *wait) silence(now time.Time, b brevity) string {
	text := "no answer from the store for " + age(now.Sub(w.answered))
	if w.held != nil {
		text += "; before that " + inTheWay(w.held, w.wish, b)
	}
	return text
}

// place is "place 2 of 4".
func place(held *backends.HeldError) string {
	return fmt.Sprintf("place %d of %d", held.Ahead+1, held.Waiters+1)
}

// told is what was last said of a wait, and when.
type told struct {
	at time.Time // zero: nothing yet
	of standing
}

// due reports whether a line is to be said.
func (t told) due(now time.Time, s standing) bool {
	switch {
	case !s.known && !s.silent:
		return false // the first answer may be here soon
	case t.at.IsZero():
		return true
	case s != t.of:
		return now.Sub(t.at) >= changeEvery
	}
	return now.Sub(t.at) >= repeatEvery
}

// waiting shows a wait on stderr: as a live line while a terminal is ours, else in
// lines now and then. It is told often enough what the store says, or doesn't, to need no timer
// for these.
type waiting struct {
	screen *screen // nil: there is no live line
	clean  func(string) string
	say    func(level slog.Level, text string, attrs ...slog.Attr)
	redraw func()

	mu   sync.Mutex
	wait wait
	told told
	over chan struct{} // closed at the end of the wait
}

func (r *lockedRun) newWaiting() *waiting {
	w := &waiting{
		clean: r.print.clean, say: r.say, redraw: r.lines.redraw,
		wait: wait{key: r.key, wish: r.wish(), began: r.began, answered: r.began},
		over: make(chan struct{}),
	}
	if !r.json && r.print.log.Enabled(context.Background(), slog.LevelInfo) {
		w.screen = screenOf(r.Stderr, r.getenv("TERM"))
	}
	if w.screen != nil {
		r.lines.show(w)
		go w.tick()
	}
	return w
}

// tick keeps the live line up to date, on a window of another size and after a stop too.
func (w *waiting) tick() {
	ticker := time.NewTicker(redrawEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			w.redraw()
		case <-w.over:
			return
		}
	}
}

// heard takes an answer of the store, or that there was none: nil.
func (w *waiting) heard(now time.Time, held *backends.HeldError) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wait.heard(now, held)
	s := w.wait.standing(now)
	switch {
	case w.ours():
		if s.first != w.told.of.first && w.wait.cutsNote(now, w.room(), w.clean) {
			w.say(slog.LevelInfo, w.wait.line(now)) // once for each who is
		}
		w.told = told{now, s}
		w.redraw()
	case w.told.due(now, s):
		w.told = told{now, s}
		w.say(slog.LevelInfo, w.wait.line(now), w.attrs(now, s)...)
	}
}

func (w *waiting) attrs(now time.Time, s standing) []slog.Attr {
	attrs := []slog.Attr{slog.Duration("waited", now.Sub(w.wait.began).Round(time.Millisecond))}
	if s.silent {
		attrs = append(attrs, slog.Duration("silent", now.Sub(w.wait.answered).Round(time.Millisecond)))
	}
	if s.known {
		held := w.wait.held
		attrs = append(attrs, slog.Any("held_by", cleanClaims(held.Holders)), slog.Int("waiting", held.Waiters), slog.Int("ahead", held.Ahead))
	}
	return attrs
}

func (w *waiting) ours() bool { return w.screen != nil && w.screen.ours() }

// room is how many columns the live line may take. Those that it leaves are for the ^C or ^Z of
// the terminal, which must not begin another row.
func (w *waiting) room() int { return w.screen.columns() - 3 }

// text is the live line.
func (w *waiting) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.over:
		return ""
	default:
		return w.wait.row(time.Now(), w.room(), w.clean)
	}
}

// end empties the live line, soon.
func (w *waiting) end() {
	close(w.over)
	w.redraw()
}
