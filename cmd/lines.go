package cmd

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"flockd/runner/tty"
)

const (
	// linesKept is how many lines wait for a reader of stderr, the latest ones: more
	// than a run writes before its end, but with --verbose.
	linesKept = 256
	// flushFor is how long the end of flockd waits for one, and hideFor the end of a wait:
	// both fit into the second in which whoever leaves the line is gone, if the store answers.
	flushFor = 700 * time.Millisecond
	hideFor  = 250 * time.Millisecond
)

// lines writes to stderr from a goroutine of its own. Whoever logs must not wait
// for a reader: a terminal that was stopped with Ctrl-S, or a pipe that nobody
// drains, would hold up the deadline of a lease.
type lines struct {
	out     io.Writer
	queue   chan line
	dropped atomic.Int64

	live    atomic.Pointer[live]
	changed chan struct{} // the live line
	drawn   bool          // the live line is where the cursor is

	unstoppable sync.Once
}

// live is a line below all others, which is drawn over in place. It takes no place
// in the queue: it is asked for what it says as it is drawn, and must not wait.
type live interface {
	ours() bool   // whether the terminal is ours to draw on now
	text() string // one row of it at most; empty: none
}

// eraseLine takes the cursor to the start of its row, and empties the row.
const eraseLine = "\r\x1b[K"

// line is text to write, or a question whether all before it was written.
type line struct {
	text    []byte
	written chan<- struct{}
}

func newLines(out io.Writer) *lines {
	l := &lines{out: out, queue: make(chan line, linesKept), changed: make(chan struct{}, 1)}
	go l.drain()
	return l
}

func (l *lines) drain() {
	for {
		select {
		case line := <-l.queue:
			l.write(line.text)
			if line.written != nil {
				close(line.written)
			}
		case <-l.changed:
			l.write(nil)
		}
	}
}

// write puts text above the live line, and draws that anew.
func (l *lines) write(text []byte) {
	if below := l.live.Load(); below != nil {
		text = l.above(*below, text)
	}
	if file, ok := l.out.(*os.File); ok && tty.Raw(int(file.Fd())) {
		text = bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))
	}
	if len(text) > 0 {
		l.unstoppable.Do(unstoppable)
		l.out.Write(text)
	}
}

// above is text with what it takes to keep the live line below it.
func (l *lines) above(below live, text []byte) []byte {
	if !below.ours() {
		l.drawn = false // a shell's prompt may be there by now
		return text
	}
	row, was := below.text(), l.drawn
	l.drawn = row != ""
	if !was && !l.drawn {
		return text
	}
	return slices.Concat([]byte(eraseLine), text, []byte(row))
}

// show keeps a live line below all others, from the next redraw until hide.
func (l *lines) show(below live) { l.live.Store(&below) }

// redraw draws the live line anew, soon.
func (l *lines) redraw() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// hide waits until everything is written, as flush does, and the live line with it,
// which has nothing to say any more. From then on whatever is in the cursor's row is left
// alone.
func (l *lines) hide() {
	if l.live.Load() != nil {
		l.written(hideFor)
		l.live.Store(nil)
	}
}

// Write takes one line. Where too many wait, the oldest is dropped: how a run came
// out is the last.
func (l *lines) Write(text []byte) (int, error) {
	for next := (line{text: bytes.Clone(text)}); ; {
		select {
		case l.queue <- next:
			return len(text), nil
		default:
		}
		select {
		case <-l.queue:
			l.dropped.Add(1)
		default:
		}
	}
}

// flush waits until everything is written, but not for long.
func (l *lines) flush() { l.written(flushFor) }

// written waits until everything is, for limit at most.
func (l *lines) written(limit time.Duration) {
	if n := l.dropped.Swap(0); n > 0 {
		fmt.Fprintf(l, "flockd: %d lines were dropped: nobody read stderr\n", n)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	written := make(chan struct{})
	select {
	case l.queue <- line{written: written}:
	case <-timer.C:
		return
	}
	select {
	case <-written:
	case <-timer.C:
	}
}
