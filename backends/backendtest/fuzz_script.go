package backendtest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"flockd/backends"
)

const (
	scriptClients = 3
	scriptClaims  = 20 // IDs at most
	scriptSteps   = 70
	recentClaims  = 8 // that most calls are about
)

const (
	acquire  = "acquire"
	renew    = "renew"
	release  = "release"
	ask      = "ask"
	complete = "complete"
	forget   = "forget"
	entries  = "entries"
)

// step is one call of a script, by a client for a claim.
type step struct {
	number, client, claim int
	call                  string

	req     backends.Request // without Key and ID
	outcome backends.Outcome
	notice  backends.Notice
	run     string
}

func (s step) String() string {
	text := fmt.Sprintf("%d: client %d: %s claim %d", s.number, s.client, s.call, s.claim)
	switch s.call {
	case acquire:
		text += fmt.Sprintf(" %s %d, place %v, min-hold %v", s.req.Mode, s.req.Slots, s.req.Place, s.req.MinHold)
		if s.req.Once != nil {
			text += fmt.Sprintf(", once %q", s.req.Once.ID)
		}
	case release:
		text += fmt.Sprintf(" %s %d success %v%s", s.outcome.Class, s.outcome.Exit, s.outcome.Success, noted(s.outcome.Notice))
	case ask:
		text += noted(s.notice)
	case forget:
		text += " " + s.run
	}
	return text
}

// writer draws the steps of one script.
type writer struct {
	*rand.Rand
	often    int // the mode of most claims; 3: none is
	requests []backends.Request
}

// script is the same for the same seed.
func script(seed uint64) (steps []step) {
	w := &writer{Rand: rand.New(rand.NewPCG(seed, 0)), often: int(seed % 4)}
	for n := range scriptSteps {
		s := w.step()
		s.number = n
		steps = append(steps, s)
	}
	return steps
}

func (w *writer) step() step {
	x, recent := w.IntN(100), max(0, len(w.requests)-recentClaims)
	if len(w.requests) == 0 || x < 18 && len(w.requests) < scriptClaims {
		w.requests = append(w.requests, w.request())
		recent, x = len(w.requests)-1, 0
	}
	claim := recent + w.IntN(len(w.requests)-recent)
	s := step{claim: claim, client: claim % scriptClients, call: w.call(x), req: w.requests[claim]}
	if w.rarely(8) {
		s.client = w.IntN(scriptClients)
	}
	if w.rarely(15) {
		s.req.Place = 0
	}
	s.outcome, s.notice, s.run = w.outcome(), w.notice(), w.run()
	return s
}

// call is acquire for x below 52.
func (w *writer) call(x int) string {
	switch {
	case x < 52:
		return acquire
	case x < 62:
		return renew
	case x < 80:
		return release
	case x < 90:
		return ask
	case x < 96:
		return complete
	case x < 98:
		return forget
	}
	return entries
}

// rarely is true once in n times.
func (w *writer) rarely(n int) bool { return w.IntN(n) == 0 }

// request ends by itself long after the script.
func (w *writer) request() backends.Request {
	r := backends.Request{Mode: backends.Exclusive, TTL: time.Hour, Place: time.Hour, Owner: backends.Owner{PID: len(w.requests)}}
	mode := w.IntN(3)
	if w.often < 3 && !w.rarely(3) {
		mode = w.often
	}
	switch {
	case mode == 1:
		r.Mode = backends.Shared
	case mode == 2:
		r.Mode, r.Slots = backends.Slots, 1+w.IntN(3)
	case w.rarely(3):
		r.Once = w.once()
	}
	if w.rarely(10) {
		r.Place = 0
	}
	if w.rarely(6) {
		r.MinHold = time.Hour
	}
	return r
}

// once is seldom by period, and then by one that hardly ends during the script.
func (w *writer) once() *backends.Once {
	if w.rarely(3) {
		return &backends.Once{Per: backends.Period{Unit: backends.Month}}
	}
	return &backends.Once{ID: w.run()}
}

func (w *writer) run() string { return []string{"a", "b"}[w.IntN(2)] }

func (w *writer) outcome() backends.Outcome {
	return []backends.Outcome{
		{},
		{Class: "finished", Success: true},
		{Class: "finished", Exit: 3},
		{Class: "lost", Exit: 143, Notice: backends.Notice{Kind: backends.Resign, Reason: "deploy"}},
	}[w.IntN(4)]
}

func (w *writer) notice() backends.Notice {
	return []backends.Notice{
		{Kind: backends.Break, Reason: "deploy"},
		{Kind: backends.Supersede, By: backends.Owner{User: "bob", PID: 7}},
		{Kind: backends.Break, Force: true, Reason: "stuck"},
		{Kind: backends.Supersede, Force: true},
	}[w.IntN(4)]
}
