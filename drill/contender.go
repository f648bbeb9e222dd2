package drill

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"flockd/backends"
	"flockd/election"
	"flockd/runner"
	"flockd/runner/guard"
)

// ContenderName is argv[0] of a contender; the drill's key follows.
const ContenderName = "flockd-drill-contender"

// Part is what a contender is told first. It holds the store's secrets, and goes through a
// pipe alone.
type Part struct {
	Name    string
	Store   string // its URL in full
	Key     string
	TTL     time.Duration
	Dir     string // the drill's folder
	Verbose bool   // it says on stderr what it sees
	Drill   int    // its process
}

// What a contender is told later, one word a line.
const (
	orderCut  = "cut"
	orderMend = "mend"
	orderEnd  = "end"
)

// Contend is the work of a contender, which is told its part and then its orders through in,
// and whose command writes to out as it does itself. prepare gives what an election in the
// part's store needs: Backend, Request.Owner, Legacy and Log; end lets go of it. The
// contender ends as it is told to, or with in. Its exit code is returned.
func Contend(in io.Reader, out *os.File, prepare func(Part) (o runner.Options, end func(), err error)) int {
	orders := bufio.NewReader(in)
	var part Part
	line, err := orders.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &part)
	}
	if err != nil {
		return 64
	}
	defer part.clear()
	o, end, err := prepare(part)
	if err != nil {
		return giveUp(out, runner.Result{Class: runner.Unavailable, Err: err})
	}
	defer end()
	c := &contending{part: part, link: newLink(o.Backend), out: out}
	return c.contend(orders, o)
}

// clear removes the drill's folder where the drill was killed when it had told its contenders to
// end, or before one of them has come to campaign.
func (p *Part) clear() {
	if os.Getppid() != p.Drill {
		os.RemoveAll(p.Dir)
	}
}

// giveUp says why a contender can't go on.
func giveUp(out io.Writer, res runner.Result) int {
	tell(out, Event{Kind: Failed, At: now(), Class: string(res.Class), Text: fmt.Sprint(res.Err)})
	return 1
}

// contending is one contender.
type contending struct {
	part Part
	link *link
	out  *os.File
}

func (c *contending) contend(orders *bufio.Reader, o runner.Options) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	over := make(chan bool, 1)
	go func() {
		over <- c.obey(orders)
		cancel()
	}()
	res := election.Campaign(ctx, c.candidate(o))
	if ctx.Err() == nil {
		return giveUp(c.out, res.Result)
	}
	if !<-over { // nobody is there to do it, even if the kernel has yet to tell our new parent
		os.RemoveAll(c.part.Dir)
	}
	return 0
}

// obey carries out the orders, and reports whether the last was to end: else the drill was
// killed.
func (c *contending) obey(orders *bufio.Reader) (told bool) {
	defer c.link.mend() // what is held is to be given back
	for {
		switch order, err := orders.ReadString('\n'); {
		case err != nil:
			return false
		case order == orderCut+"\n":
			c.link.cut()
		case order == orderMend+"\n":
			c.link.mend()
		case order == orderEnd+"\n":
			return true
		}
	}
}

// candidate is what a contender campaigns with.
func (c *contending) candidate(o runner.Options) election.Options {
	o.Backend = c.link
	o.Request.Key, o.Request.Mode, o.Request.TTL = c.part.Key, backends.Exclusive, c.part.TTL
	o.Grace = runner.DefaultGrace
	o.Command = runner.Command{
		Path: guard.Program(), Args: []string{CommandName, c.part.Dir}, Env: os.Environ(),
		Stdout: c.out, Stderr: os.Stderr,
	}
	return election.Options{Term: o, Restart: election.Always, Changed: c.changed}
}

// changed tells the drill when this contender stands in line.
func (c *contending) changed(s election.State) {
	if s.Phase == election.Campaigning && s.Held != nil {
		tell(c.out, Event{Kind: InLine, At: now()})
	}
}
