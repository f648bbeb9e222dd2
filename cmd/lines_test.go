package cmd

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
)

// Where nobody reads, writing waits for nobody; the latest lines are kept, and
// what was dropped is told.
func TestLinesKeepTheLatest(t *testing.T) {
	r, w := io.Pipe()
	l := newLines(w)
	for i := range 3 * linesKept {
		fmt.Fprintf(l, "line %d\n", i)
	}
	fmt.Fprintln(l, "lost the lock")
	var out bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.Copy(&out, r)
	}()
	l.flush()
	w.Close()
	<-read
	text := out.String()
	if !strings.Contains(text, "\nlost the lock\n") || !strings.Contains(text, "lines were dropped") || strings.Contains(text, "line 300\n") {
		t.Errorf("%s", text)
	}
}

func TestLinesKeepTheOrder(t *testing.T) {
	var out bytes.Buffer
	l := newLines(&out)
	var want strings.Builder
	for i := range linesKept {
		fmt.Fprintf(l, "line %d\n", i)
		fmt.Fprintf(&want, "line %d\n", i)
	}
	l.flush()
	if out.String() != want.String() {
		t.Errorf("%s", out.String())
	}
}

// row is a live line of a test.
type row struct {
	foreign atomic.Bool
	says    atomic.Pointer[string]
}

func (r *row) ours() bool { return !r.foreign.Load() }

func (r *row) text() string { return *r.says.Load() }

func (r *row) say(text string) { r.says.Store(&text) }

// The live line stays below all others, and leaves nothing.
func TestLiveLine(t *testing.T) {
	var out bytes.Buffer
	l := &lines{out: &out, changed: make(chan struct{}, 1)}
	live := &row{}
	l.show(live)
	for _, step := range []struct {
		do    func()
		write string
		want  string
	}{
		{func() { live.say("") }, "", ""},
		{func() {}, "one\n", "one\n"},
		{func() { live.say("waiting") }, "", eraseLine + "waiting"},
		{func() {}, "two\n", eraseLine + "two\nwaiting"},
		{func() { live.say("waiting 1s") }, "", eraseLine + "waiting 1s"},
		{func() { live.foreign.Store(true) }, "", ""},
		{func() {}, "three\n", "three\n"},
		{func() { live.foreign.Store(false) }, "", eraseLine + "waiting 1s"},
		{func() { live.say("") }, "four\n", eraseLine + "four\n"},
		{func() {}, "", ""},
		{func() { live.say("again") }, "", eraseLine + "again"},
		{func() { live.foreign.Store(true); live.say("") }, "", ""},
		{func() { live.foreign.Store(false) }, "five\n", "five\n"},
	} {
		out.Reset()
		step.do()
		l.write([]byte(step.write))
		if out.String() != step.want {
			t.Errorf("%q was written for %q, want %q", out.String(), step.write, step.want)
		}
	}
}

// Once it is hidden, the row is somebody else's.
func TestLiveLineIsHidden(t *testing.T) {
	var out bytes.Buffer
	l := newLines(&out)
	live := &row{}
	live.say("waiting")
	l.show(live)
	l.flush() // draws it, too
	live.say("")
	l.hide()
	live.say("waiting")
	l.redraw()
	fmt.Fprintln(l, "one")
	l.flush()
	if want := eraseLine + "waiting" + eraseLine + "one\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// A terminal that was stopped holds nobody up, and the live line takes no other's place.
func TestLiveLineOnAStoppedTerminal(t *testing.T) {
	r, w := io.Pipe()
	l := newLines(w)
	live := &row{}
	live.say("waiting")
	l.show(live)
	fmt.Fprintln(l, "one")
	for range 3 * linesKept {
		l.redraw()
	}
	live.say("")
	l.hide() // gives up
	if n := l.dropped.Load(); n != 0 {
		t.Errorf("%d lines were dropped", n)
	}
	var out bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.Copy(&out, r)
	}()
	l.flush()
	w.Close()
	<-read
	if !strings.Contains(out.String(), "one\n") || strings.Count(out.String(), eraseLine) > 1 { // once hidden, it is left
		t.Errorf("%q", out.String())
	}
}
