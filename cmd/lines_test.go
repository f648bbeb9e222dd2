package cmd

import (
	"bytes"
	"fmt"
	"io"
	"strings"
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
