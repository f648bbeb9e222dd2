package servers

import (
	"bytes"
	"strings"
	"sync"
)

// journal keeps what a server prints.
type journal struct {
	ready chan struct{} // closed when it says that it serves

	mu     sync.Mutex
	text   bytes.Buffer
	awaits string // "" once ready
}

func newJournal(ready string) *journal {
	return &journal{ready: make(chan struct{}), awaits: ready}
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.text.Write(b)
	if j.awaits != "" && bytes.Contains(j.text.Bytes(), []byte(j.awaits)) {
		j.awaits = ""
		close(j.ready)
	}
	return len(b), nil
}

func (j *journal) all() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// tail is the last lines, enough to see what went wrong.
func (j *journal) tail() string {
	lines := strings.SplitAfter(j.all(), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "")
}
