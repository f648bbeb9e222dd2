//go:build linux

package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"flockd/testscripts/torture/trace"
)

// never is later than any reading of a clock.
const never = math.MaxInt64

// request is what one flockd asked of the store. Without an answer it is unknown
// what became of it.
type request struct {
	trace.Event
	answer *trace.Event
}

// outcome is Unknown where no answer came.
func (r *request) outcome() trace.Outcome {
	if r.answer == nil {
		return trace.Unknown
	}
	return r.answer.Outcome
}

// pid is the flockd that asked.
func (r *request) pid() int {
	text, _, _ := strings.Cut(r.Request, ".")
	pid, _ := strconv.Atoi(text)
	return pid
}

// history is what the tracers have written down so far.
type history struct {
	mu       sync.Mutex
	file     *os.File
	rest     []byte // of a line that isn't whole yet
	requests []*request
	open     map[string]*request // that have no answer yet, by Event.Request
	byPID    map[int][]*request
}

func openHistory(name string) (*history, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|os.O_CREATE, 0o600)
	return &history{file: file, open: map[string]*request{}, byPID: map[int][]*request{}}, err
}

// catchUp reads what has been written until now.
func (h *history) catchUp() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	text, err := io.ReadAll(h.file)
	if err != nil {
		return err
	}
	lines := append(h.rest, text...)
	end := bytes.LastIndexByte(lines, '\n') + 1
	h.rest = bytes.Clone(lines[end:])
	for line := range bytes.Lines(lines[:end]) {
		if err := h.add(line); err != nil {
			return fmt.Errorf("%w: %s", err, line)
		}
	}
	return nil
}

func (h *history) add(line []byte) error {
	var e trace.Event
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	if e.Op != "" {
		r := &request{Event: e}
		h.requests = append(h.requests, r)
		h.open[e.Request] = r
		h.byPID[r.pid()] = append(h.byPID[r.pid()], r)
		return nil
	}
	r := h.open[e.Request]
	if r == nil {
		return fmt.Errorf("an answer to nothing")
	}
	r.answer = &e
	delete(h.open, e.Request)
	return nil
}

// of is what the flockd pid has asked since then.
func (h *history) of(pid int, since int64) (asked []*request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.byPID[pid] {
		if r.At >= since {
			asked = append(asked, r)
		}
	}
	return asked
}

// exclusive leaves out what was asked for keys that are mixed.
func exclusive(requests []*request) []*request {
	return slices.DeleteFunc(slices.Clone(requests), func(r *request) bool { return mixed(r.Key) })
}

// all is what everybody has asked so far.
func (h *history) all() []*request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.requests)
}
