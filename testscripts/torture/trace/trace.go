//go:build linux

// Package trace writes down what flockd asks of its store and what the store says.
// It is built into the program for the torture tests alone, around the store that
// flockd opens.
package trace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"flockd/backends"
)

// Variable names the file that the events are appended to. Where it isn't set,
// nothing is traced.
const Variable = "FLOCKD_TORTURE_TRACE"

// Session is what a probe that leaves its session keeps the number of that in.
const Session = "FLOCKD_TORTURE_SESSION"

// Share is what a probe knows from whom it may be beside: see package oracle.
const Share = "FLOCKD_TORTURE_SHARE"

// Writer is what a probe that leads writes to its book with: the path of flockd, whose fence
// file refuses what comes too late, or Unfenced, which refuses nothing.
const (
	Writer   = "FLOCKD_TORTURE_WRITER"
	Unfenced = "unfenced"
)

// Op is a request to the store.
type Op string

const (
	Acquire Op = "acquire"
	Renew   Op = "renew"
	Release Op = "release"
)

// Outcome is what the store said.
type Outcome string

const (
	OK      Outcome = "ok"
	Held    Outcome = "held"    // By and ByToken are the holder's; By names all, where there are more
	Next    Outcome = "next"    // nobody holds, and By is the first in line
	Lost    Outcome = "lost"    // the store's word that the ID has neither hold nor place
	Refused Outcome = "refused" // certainly not applied
	Unknown Outcome = "unknown" // applied or not, now or later
)

// Event is one line of the file: a request before it is sent, or its answer. The
// answer of a process that was killed is missing.
type Event struct {
	Request string `json:"request"` // joins the two lines of a request; begins with the number of the process and a dot
	At      int64  `json:"at"`      // CLOCK_BOOTTIME in ns: before the request was sent, or after its answer came

	Op    Op     `json:"op,omitempty"` // empty in an answer, with the next three
	Key   string `json:"key,omitempty"`
	ID    string `json:"id,omitempty"`
	Asked int64  `json:"asked,omitempty"` // the TTL, ns; zero in a release

	Outcome Outcome        `json:"outcome,omitempty"` // empty in a request, with all below
	Token   backends.Token `json:"token,omitempty"`
	Trusted int64          `json:"trusted,omitempty"` // how long the grant or renewal may be relied on, ns
	By      string         `json:"by,omitempty"`
	ByToken backends.Token `json:"by_token,omitempty"`
	Err     string         `json:"err,omitempty"`
}

// Now reads CLOCK_BOOTTIME in ns. It is the same in every process of the host.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // Linux has it since 2.6.39
	}
	return t.Nano()
}

// Decorate traces b to the file that Variable names.
func Decorate(b backends.Backend, err error) (backends.Backend, error) {
	name := os.Getenv(Variable)
	if name == "" || err != nil {
		return b, err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &tracer{Backend: b, file: file}, nil
}

// tracer passes everything on. Optional interfaces are found through Unwrap.
type tracer struct {
	backends.Backend
	file *os.File
}

// began tells a process from an earlier one of the same number.
var began = Now()

var last atomic.Int64

func (t *tracer) Unwrap() backends.Backend { return t.Backend }

func (t *tracer) Acquire(ctx context.Context, req backends.Request) (backends.Lease, error) {
	request := t.asked(Event{Op: Acquire, Key: req.Key, ID: req.ID, Asked: int64(req.TTL)})
	lease, err := t.Backend.Acquire(ctx, req)
	answer := answerOf(err)
	if err == nil {
		answer.Token, answer.Trusted = lease.Token, int64(t.Traits().Trusted(lease.TTL))
	}
	t.answered(request, answer)
	return lease, err
}

func (t *tracer) Renew(ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
	request := t.asked(Event{Op: Renew, Key: lease.Key, ID: lease.ID, Asked: int64(lease.TTL)})
	renewal, err := t.Backend.Renew(ctx, lease)
	answer := answerOf(err)
	answer.Token = lease.Token
	if err == nil {
		answer.Trusted = int64(t.Traits().Trusted(renewal.TTL))
	}
	t.answered(request, answer)
	return renewal, err
}

func (t *tracer) Release(ctx context.Context, key, id string, outcome backends.Outcome) error {
	request := t.asked(Event{Op: Release, Key: key, ID: id})
	err := t.Backend.Release(ctx, key, id, outcome)
	t.answered(request, answerOf(err))
	return err
}

// asked writes a request down before it is sent.
func (t *tracer) asked(e Event) (request string) {
	e.Request = fmt.Sprintf("%d.%d.%d", os.Getpid(), began, last.Add(1))
	t.write(e)
	return e.Request
}

// answered writes an answer down before flockd hears it.
func (t *tracer) answered(request string, e Event) {
	e.Request = request
	t.write(e)
}

// write appends one line in one call, so that lines of several processes don't mix.
func (t *tracer) write(e Event) {
	e.At = Now()
	line, err := json.Marshal(e)
	if err == nil {
		_, err = t.file.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "trace:", err)
		os.Exit(internal) // a history with holes proves nothing
	}
}

// internal is flockd's exit code for a fault in itself, which no storm accepts.
const internal = 70

func answerOf(err error) Event {
	var held *backends.HeldError
	switch {
	case err == nil:
		return Event{Outcome: OK}
	case errors.As(err, &held) && len(held.Holders) > 0:
		return Event{Outcome: Held, By: all(held.Holders), ByToken: held.Holders[0].Token}
	case held != nil && held.Next != nil:
		return Event{Outcome: Next, By: held.Next.ID}
	case errors.Is(err, backends.ErrLost):
		return Event{Outcome: Lost}
	case errors.Is(err, backends.ErrRefused):
		return Event{Outcome: Refused, Err: err.Error()}
	}
	return Event{Outcome: Unknown, Err: err.Error()}
}

func all(claims []backends.Claim) string {
	var ids []string
	for _, c := range claims {
		ids = append(ids, c.ID)
	}
	return strings.Join(ids, " ")
}
