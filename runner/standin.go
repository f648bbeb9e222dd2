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
)

// StandInName is argv[0] of a program that renews the lease of a flockd that is stopped with
// its command: see StandIn.
const StandInName = "flockd-keep"

// The descriptors of a stand-in beside /dev/null.
const (
	dutyFD   = 3 // the duty comes, a byte says that the lease was renewed, the end is the end
	reportFD = 4 // a report at a time, at its beginning
	pipeFD   = 5 // the guard hears it; closed: there is none

	reportSize = 4096
)

// lookEvery is how soon a flockd is woken whose command somebody has made go on without
// it: nobody else would see the command's end.
const lookEvery = 250 * time.Millisecond

// duty is what a stand-in has to know.
type duty struct {
	Lease   backends.Lease
	TTL     time.Duration // as granted last
	Timing  Timing
	Grace   time.Duration // as asked
	Sent    time.Duration // when the last request that succeeded was sent
	Clock   backends.Clock
	Orders  guard.Orders // the latest
	Guarded bool         // there is a guard to tell
	Command int          // the command's first process
	Legacy  []byte       // see Options
}

// report is what a stand-in has to say when it ends.
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
	b, err := open(d.Legacy)
	if err != nil {
		return err
	}
	s := &standIn{duty: d, relay: newRelay(d), out: os.NewFile(reportFD, "report")}
	s.keeper = &keeper{
		backend: b, lease: d.Lease, grace: d.Grace, clock: s.clock, tick: tickOf(d.Clock),
		log: slog.New(slog.DiscardHandler), guard: s.relay,
	}
	released := make(chan struct{})
	go func() {
		io.Copy(io.Discard, in)
		close(released)
	}()
	s.run(released, func() { conn.Write([]byte{0}) })
	return nil
}

// standIn is the work of one.
type standIn struct {
	duty
	*relay
	keeper *keeper
	out    io.WriterAt
}

// run renews until released is closed or flockd has to go on, and calls ready after
// the first time.
func (s *standIn) run(released <-chan struct{}, ready func()) {
	end := keep(context.Background(), s.keeper, s.Timing, s.Sent)
	s.keeper.hints <- struct{}{} // at once: whoever pressed Ctrl-Z is to know that it will
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for woken := false; !woken; {
		select {
		case <-released:
			end()
			s.say(false)
			return
		case <-s.renewed:
			ready()
			ready = func() {}
		case <-s.keeper.stops:
			woken = true
		case <-look.C:
			woken = !halted(s.Command)
		}
	}
	end()
	s.say(true)
	syscall.Kill(syscall.Getppid(), syscall.SIGCONT)
	<-released
}

func (s *standIn) say(woken bool) {
	t := s.keeper.read()
	said := report{Sent: t.sent, TTL: t.ttl, Kill: s.told, Acted: s.acted, Woken: woken}
	text, _ := json.Marshal(said)
	s.out.WriteAt(append(text, '\n'), 0)
}

// relay tells a guard of deadlines in another's stead.
type relay struct {
	heard
	guard   *guard.Guard // nil: there is none
	orders  guard.Orders
	renewed chan struct{}
}

func newRelay(d duty) *relay {
	r := &relay{heard: heard{clock: clockOf(d.Clock), told: d.Orders.Kill}, orders: d.Orders, renewed: make(chan struct{}, 1)}
	if d.Guarded {
		r.guard = guard.Reach(os.NewFile(pipeFD, "guard"))
	}
	return r
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
