//go:build linux

package failover

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"flockd/backends"
)

// event is a line of the history. The clock is CLOCK_BOOTTIME, one for all hosts.
type event struct {
	at    int64
	what  string // start, overlap (with the daemon before), wrote, admitted, refused
	host  string
	token backends.Token
}

// history is what the daemons have written down so far, in the order in which they did.
func (l *lab) history() (events []event) {
	text, err := os.ReadFile(filepath.Join(l.dir, historyFile))
	if err != nil && !os.IsNotExist(err) {
		l.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var e event
		if _, err := fmt.Sscan(string(line), &e.at, &e.what, &e.host, &e.token); err == nil { // else it is being written
			events = append(events, e)
		}
	}
	return events
}

// terms are the starts of daemons.
func (l *lab) terms() (starts []event) {
	for _, e := range l.history() {
		if e.what == "start" {
			starts = append(starts, e)
		}
	}
	return starts
}

// present is the start of the last term, the zero value if there was none.
func (l *lab) present() event {
	if all := l.terms(); len(all) > 0 {
		return all[len(all)-1]
	}
	return event{}
}

// count is how often a term's daemon has noted something.
func (l *lab) count(token backends.Token, what string) (n int) {
	for _, e := range l.history() {
		if e.what == what && e.token == token {
			n++
		}
	}
	return n
}

// lived is when a term's daemon was last seen alive.
func (l *lab) lived(token backends.Token) int64 {
	l.Helper()
	text, err := os.ReadFile(filepath.Join(l.dir, beatsOf(strconv.FormatInt(int64(token), 10))))
	must(l.T, err)
	at, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	must(l.T, err)
	return at
}

// ordered wants a history without fault, but for what is expected.
func (l *lab) ordered() {
	l.Helper()
	for _, fault := range disorder(l.history(), l.zombies) {
		l.Error(fault)
	}
}

// disorder is where terms don't grow, or a daemon met the one before, other than in the terms
// that began beside a zombie.
func disorder(events []event, zombies map[backends.Token]bool) (found []string) {
	var last event
	for _, e := range events {
		switch {
		case e.what == "start" && e.token <= last.token:
			found = append(found, fmt.Sprintf("%s led with term %d after term %d of %s", e.host, e.token, last.token, last.host))
		case e.what == "overlap" && !zombies[e.token]:
			found = append(found, fmt.Sprintf("%s led with term %d, and the command of a term before still ran", e.host, e.token))
		}
		if e.what == "start" {
			last = e
		}
	}
	return found
}

// patience is for what is known to come.
const patience = 60 * time.Second

// until waits for it.
func (l *lab) until(what string, happened func() bool) {
	l.Helper()
	l.looking(beatEvery, what, happened)
}

// looking is until with a pause, for a look that costs something.
func (l *lab) looking(every time.Duration, what string, happened func() bool) {
	l.Helper()
	for end := time.Now().Add(patience); !happened(); time.Sleep(every) {
		if time.Now().After(end) {
			l.Fatalf("not within %v: %s\n%s", patience, what, l.said())
		}
	}
}
