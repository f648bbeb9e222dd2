package cmd

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

const (
	// linesKept is how many lines wait for a reader of stderr, the latest ones: more
	// than a run writes before its end, but with --verbose.
	linesKept = 256
	// flushFor is how long the end of flockd waits for one.
	flushFor = time.Second
)

// lines writes to stderr from a goroutine of its own. Whoever logs must not wait
// for a reader: a terminal that was stopped with Ctrl-S, or a pipe that nobody
// drains, would hold up the deadline of a lease.
type lines struct {
	out     io.Writer
	queue   chan line
	dropped atomic.Int64
}

// line is text to write, or a question whether all before it was written.
type line struct {
	text    []byte
	written chan<- struct{}
}

func newLines(out io.Writer) *lines {
	l := &lines{out: out, queue: make(chan line, linesKept)}
	go l.drain()
	return l
}

func (l *lines) drain() {
	for line := range l.queue {
		if line.written != nil {
			close(line.written)
			continue
		}
		l.out.Write(line.text)
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
func (l *lines) flush() {
	if n := l.dropped.Swap(0); n > 0 {
		fmt.Fprintf(l, "flockd: %d lines were dropped: nobody read stderr\n", n)
	}
	timer := time.NewTimer(flushFor)
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
