//go:build linux

package torture

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"flockd/backends"
	"flockd/testscripts/torture/trace"
)

// TestElections' zombies: no lease can keep them from writing. Their write is refused where there is a
// fence, and costs an update where there is none.
func zombie(t *testing.T, program, writer string) {
	e := newElection(t, redisGround, program, 0, 0)
	e.writer, e.share = writer, "shared" // or the kernel's locks would say that two are alive
	e.open(t.Context())
	old := e.rise(t)
	e.end()
	lost, err := lostUpdates(e.folder)
	refused, err2 := refusals(e.folder)
	t.Logf("%d lost updates, %d writes refused", len(lost), len(refused))
	switch {
	case err != nil || err2 != nil:
		t.Error(err, err2)
	case writer == trace.Unfenced && len(lost) == 0:
		t.Error("a zombie that nothing refuses has overwritten nothing")
	case writer != trace.Unfenced && (len(lost) > 0 || !slices.Equal(refused, []backends.Token{old.token})):
		t.Errorf("lost: %q, refused: %d, of which term %d is the zombie's", lost, refused, old.token)
	}
}

// rise has the whole host of a leader stand still with an old text in its hands until another one
// leads and has written, and then its command go on first. It returns the term of the zombie.
func (e *election) rise(t *testing.T) term {
	outcome := "refused"
	if e.writer == trace.Unfenced {
		outcome = "written"
	}
	old, err := e.current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := e.candidate(old)
	f := e.freezeThinking(old, c)
	next, ok := e.await(t.Context(), old, electedWithin+afterwards)
	if !ok {
		t.Fatal("nobody is elected")
	}
	e.writes(next, func() {}, "written")
	e.writes(old, func() { signalAll(c.members(), syscall.SIGCONT) }, outcome)
	e.writes(next, f.thaw, "written")
	return old
}

// freezeThinking freezes all of a leader that has read the book, and has not begun to write it.
func (e *election) freezeThinking(t term, c *candidate) standstill {
	for {
		e.writes(t, func() {}, "written")
		lasts(e.t.Context(), 50*time.Millisecond) // until it has read
		f, ok := c.freeze()
		if !ok {
			e.t.Fatal("it can't be frozen")
		}
		if e.lines(t, "book") == e.lines(t, "written") && !slices.ContainsFunc(c.members(), fences) {
			return f
		}
		f.thaw() // a busy host was late
	}
}

// fences reports whether a process is a flockd fence file.
func fences(pid int) bool {
	line, _ := os.ReadFile(of(pid, "cmdline"))
	return bytes.Contains(line, []byte("\x00fence\x00"))
}

// writes does something, and waits for a line more of a term in a file.
func (e *election) writes(t term, meanwhile func(), file string) {
	e.t.Helper()
	before := e.lines(t, file)
	meanwhile()
	eventually(e.t, fmt.Sprintf("term %d has a line more in %q", t.token, file), func() bool { return e.lines(t, file) > before })
}

// lines counts those of a term in a file.
func (e *election) lines(t term, file string) (n int) {
	all, err := linesOf(e.folder, file)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, line := range all {
		if strings.HasPrefix(line, fmt.Sprint(t.token, " ")) {
			n++
		}
	}
	return n
}
