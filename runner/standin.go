package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"flockd/backends"
	"flockd/runner/guard"
	"flockd/runner/tree"
)

// StandInName is argv[0] of a program that renews the lease of a flockd that is stopped with
// its command: see StandIn.
const StandInName = "flockd-keep"

// The descriptors of a stand-in beside /dev/null.
const (
	dutyFD = 3 // a socket: the duty comes, "ready" and a report go, and what ends is what flockd has to say
	pipeFD = 4 // the guard hears it; closed: there is none
)

// lookEvery is how soon a flockd is woken whose command somebody has made go on without
// it: nobody else would see the command's end.
const lookEvery = 250 * time.Millisecond

// wakeEvery is how soon a flockd that was about to stop is found to have stopped.
const wakeEvery = 25 * time.Millisecond

// duty is what a stand-in has to know.
type duty struct {
	Kept    bool // there is a lease to keep
	Warned  bool // the command outlives the lease: flockd isn't woken for that
	Lease   backends.Lease
	TTL     time.Duration // as granted last
	Timing  Timing
	Grace   time.Duration // as asked
	Sent    time.Duration // when the last request that succeeded was sent
	Clock   backends.Clock
	Orders  guard.Orders // the latest
	Guarded bool         // there is a guard to tell
	Flockd  int          // who has stopped
	Command int          // the command's first process; 0: it has ended, and left others
	Legacy  []byte       // see Options
}

// report is what a stand-in has to say: a zero one when it has renewed once, and one when
// it ends.
type report struct {
	Sent  time.Duration // when the last renewal that succeeded was sent; 0: none has
	TTL   time.Duration // as granted by that
	Kill  time.Duration // the deadline that the guard goes by
	Acted bool          // an earlier one had passed before that
	Woken bool          // it has made flockd go on
}

// StandIn renews a lease in the stead of its parent, a flockd that has stopped with its
// command, since it can't. It tells the guard each deadline, and returns when flockd
// goes on or is dead. It makes flockd go on when the command has to be stopped, or has
// been made to go on. open opens the store that Options.Legacy tells of.
func StandIn(open func(legacy []byte) (backends.Backend, error)) error {
	guard.Title(StandInName)
	conn := os.NewFile(dutyFD, "duty")
	in := bufio.NewReader(conn)
	text, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var d duty
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	released := make(chan struct{})
	go func() {
		io.Copy(io.Discard, in)
		close(released)
	}()
	var b backends.Backend
	if d.Kept {
		if b, err = open(d.Legacy); err != nil {
			return err
		}
	}
	s := newStandIn(d, b, clockOf(d.Clock))
	if d.Guarded {
		s.guard = guard.Reach(os.NewFile(pipeFD, "guard"))
	}
	out := json.NewEncoder(conn)
	said := s.run(released, func() { out.Encode(report{}) })
	err = out.Encode(said)
	if said.Woken {
		wake(d.Flockd, released)
	}
	return err
}

// wake makes flockd go on, which may not have stopped yet, until it has heard. One that
// isn't stopped would take a CONT for somebody's wish that the command go on.
func wake(flockd int, heard <-chan struct{}) {
	for look := time.Duration(0); ; look = wakeEvery {
		select {
		case <-heard:
			return
		case <-time.After(look):
		}
		if tree.Stopped(flockd) {
			syscall.Kill(flockd, syscall.SIGCONT)
		}
	}
}

// standIn is the work of one.
type standIn struct {
	duty
	*relay
	keeper *keeper
	halted func(pid int) bool
}

func newStandIn(d duty, b backends.Backend, clock func() time.Duration) *standIn {
	r := &relay{heard: heard{clock: clock, told: d.Orders.Kill}, orders: d.Orders, renewed: make(chan struct{}, 1)}
	return &standIn{duty: d, relay: r, halted: tree.Stopped, keeper: &keeper{
		backend: b, lease: d.Lease, grace: d.Grace, clock: clock, tick: tickOf(d.Clock), log: slog.New(slog.DiscardHandler), guard: r,
	}}
}

// run renews until released is closed or flockd has to go on, and calls ready after
// the first time.
func (s *standIn) run(released <-chan struct{}, ready func()) report {
	end := func() {}
	if s.Kept {
		end = keep(context.Background(), s.keeper, s.Timing, s.Sent)
		s.keeper.hints <- struct{}{} // at once: whoever pressed Ctrl-Z is to know that it will
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	done, woken := false, false
	for !done && !woken {
		select {
		case <-released:
			done = true
		case <-s.renewed:
			ready()
			ready = func() {}
		case <-s.keeper.stops:
			woken = !s.Warned
		case <-look.C:
			woken = !s.halted(s.Command)
		}
	}
	end()
	if !s.Kept {
		return report{Woken: woken}
	}
	t := s.keeper.read()
	return report{Sent: t.sent, TTL: t.ttl, Kill: s.told, Acted: s.acted, Woken: woken}
}

// relay tells a guard of deadlines in another's stead.
type relay struct {
	heard
	guard   *guard.Guard // nil: there is none
	orders  guard.Orders
	renewed chan struct{}
}

// deadline sets when the guard has to kill the tree.
func (r *relay) deadline(kill time.Duration) {
	r.orders.Kill = kill
	if r.guard != nil {
		r.guard.Tell(r.orders)
	}
	r.goesBy(kill)
	select {
	case r.renewed <- struct{}{}:
	default:
	}
}
