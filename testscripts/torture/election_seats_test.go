//go:build linux

package torture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest/servers"
	"flockd/testscripts/torture/trace"
)

const (
	// electionTTL is long enough for a busy host to keep its lease in.
	electionTTL = 3 * time.Second

	// electedWithin is how long there may be no leader after a fault, in most cases. It is put
	// right then, and afterwards is what places of the dead and a busy host may take. A flockd that
	// was frozen in a transaction of SQLite keeps the file until it is woken.
	electedWithin = 3 * electionTTL
	afterwards    = place + 5*time.Second

	service = "svc" // the key
)

// election is an arena in which candidates fight for one key. Each has a seat, and when it ends
// another one takes it.
type election struct {
	*arena
	ground *ground
	random *rand.Rand // of whoever deposes leaders
	writer string     // what leaders write to the book with: see trace.Writer
	share  string     // with whom a leader may be beside, as far as the kernel's locks judge
	seats  int
	modes  []string // of the commands, to draw from: see the probe
	works  []string // how long hooks take, to draw from

	fights     sync.WaitGroup
	close      context.CancelFunc // nobody takes a seat any more
	candidates []*candidate       // guarded by arena.mu, in the order in which they began
	changes    []change

	// Once it is over:
	gaps   map[string]gaps // by means
	others int             // changes that nobody made
}

// candidate is one flockd elect.
type candidate struct {
	*job
	number int
	link   *servers.TCPProxy // on its way to the store; nil: there is nothing
	told   bool              // to end; guarded by arena.mu
}

// term is what its command wrote down when it had the kernel's locks.
type term struct {
	began   int64
	token   backends.Token
	id      string
	flockd  session
	command int // its first process
}

// change is a term that has followed another one.
type change struct {
	means     string
	told      string // what its hook is to hear: see means
	late      bool   // the fault was put right first
	old, next term
}

// newElection is for the first of three to five candidates to be seated.
func newElection(t testing.TB, make func(testing.TB, int) *ground, flockd string, seed, row uint64) *election {
	r := rand.New(rand.NewPCG(seed, 2000+row))
	seats := 3 + r.IntN(3)
	g := make(t, seats)
	return &election{arena: newArena(t, g.store, flockd, seed), ground: g, random: r, writer: flockd, seats: seats, modes: services, works: hookWorks}
}

// open has candidates take all seats.
func (e *election) open(ctx context.Context) {
	ctx, e.close = context.WithCancel(ctx)
	for seat := range e.seats {
		r := rand.New(rand.NewPCG(e.seed, e.random.Uint64()))
		e.fights.Go(func() {
			for ctx.Err() == nil {
				c := e.enter(seat, r)
				e.execute(c.job, e.ground.ways[seat], e.campaign(c, r)...)
			}
		})
	}
}

func (e *election) enter(seat int, r *rand.Rand) *candidate {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := &candidate{job: &job{key: service, mode: draw(r, e.modes), bare: seat%2 == 0}, number: len(e.candidates)}
	if e.ground.links != nil {
		c.link = e.ground.links[seat]
	}
	e.candidates = append(e.candidates, c)
	return c
}

// services are how commands of leaders hold on to their lives: see the probe.
var services = []string{"", "deaf", "family", "family deaf", "orphan", "daemon", "daemon deaf"}

// hookLimit is longer than most hooks take, and than a busy host takes to start one.
const hookLimit = 3 * time.Second

var hookWorks = []string{"0s", "50ms", "200ms", "500ms", "1m"}

// campaign are the arguments of a candidate.
func (e *election) campaign(c *candidate, r *rand.Rand) []string {
	hook := func(what string) string {
		return fmt.Sprintf("exec %s %s %s hook %s %d", e.probe, e.folder, draw(r, e.works), what, c.number)
	}
	args := []string{
		"elect", "--verbose", "--key", service, "--ttl", electionTTL.String(), "--grace", "300ms",
		"--on-elected", hook("elected"), "--on-deposed", hook("deposed"), "--hook-limit", hookLimit.String(),
		"--", e.probe, e.folder, "1h", trace.Share + "=" + e.share, trace.Writer + "=" + e.writer,
	}
	return append(args, strings.Fields(c.mode)...)
}

// terms are those that have begun, in their order.
func (e *election) terms() (terms []term) {
	text, err := os.ReadFile(filepath.Join(e.folder, "terms"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var t term
		if _, err := fmt.Sscan(string(line), &t.began, &t.token, &t.id, &t.flockd, &t.command); err != nil {
			e.t.Fatalf("%v: %q", err, line)
		}
		terms = append(terms, t)
	}
	return terms
}

// candidate is whose term it is.
func (e *election) candidate(t term) *candidate {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range slices.Backward(e.candidates) {
		if c.session == t.flockd && c.began < t.began {
			return c
		}
	}
	e.t.Fatalf("nobody's term: %+v", t)
	return nil
}

// await is the term that follows another one, and false if none does in time, or two commands
// are alive.
func (e *election) await(ctx context.Context, old term, within time.Duration) (term, bool) {
	for end := time.Now().Add(within); ; lasts(ctx, 10*time.Millisecond) {
		terms := e.terms()
		for i, t := range terms {
			if t.began > old.began {
				return terms[i], true
			}
		}
		if time.Now().After(end) || ctx.Err() != nil || checkOracle(e.folder) != nil {
			return term{}, false
		}
	}
}

// current is the term that lasts, or has lasted last.
func (e *election) current(ctx context.Context) (term, error) {
	e.await(ctx, term{}, electedWithin+afterwards)
	terms := e.terms()
	switch err := checkOracle(e.folder); {
	case err != nil:
		return term{}, err
	case len(terms) == 0:
		return term{}, errors.New("nobody is elected")
	}
	return terms[len(terms)-1], nil
}

// abandon kills all candidates.
func (e *election) abandon() {
	e.close()
	for _, j := range e.running() {
		e.killOff(j)
	}
	e.settle(&e.fights)
}

// send sends a signal to a candidate, if it runs.
func (e *election) send(c *candidate, sig syscall.Signal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.told = c.told || sig == syscall.SIGTERM
	if e.jobs[int(c.session)] == c.job {
		syscall.Kill(int(c.session), sig)
	}
}

// end has all candidates resign, and waits for it.
func (e *election) end() {
	e.close()
	ended := make(chan struct{})
	go func() { defer close(ended); e.settle(&e.fights) }()
	for {
		for _, c := range e.untold() {
			e.send(c, syscall.SIGTERM)
		}
		select {
		case <-ended:
			return
		case <-time.After(50 * time.Millisecond): // one may just have taken a seat
		}
	}
}

// untold are those that run and were not told to end.
func (e *election) untold() (found []*candidate) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.candidates {
		if !c.told && e.jobs[int(c.session)] == c.job {
			found = append(found, c)
		}
	}
	return found
}
