package drill

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"flockd/runner/guard"
)

// contender is the drill's end of one.
type contender struct {
	name    string
	process *exec.Cmd
	orders  io.WriteCloser
	stopped bool          // by Freeze
	ended   atomic.Bool   // it has been killed, or told to end
	exited  chan struct{} // closed when its process has ended: process.ProcessState says how
	drained chan struct{} // closed when nobody is left who could tell anything: its command neither
}

// startContender starts one and tells it its part. What it tells goes to heard.
func startContender(part Part, stderr *os.File, heard func(Event)) (*contender, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	c := &contender{name: part.Name, exited: make(chan struct{}), drained: make(chan struct{})}
	c.process = &exec.Cmd{
		Path: guard.Program(), Args: []string{ContenderName, part.Key}, Stdout: write, Stderr: stderr,
		SysProcAttr: apart(), // or Ctrl-C would be its as well
	}
	if c.orders, err = c.process.StdinPipe(); err == nil {
		err = c.start()
	}
	if err != nil {
		read.Close()
		return nil, fmt.Errorf("start a contender: %w", err)
	}
	go c.read(read, heard)
	line, err := json.Marshal(part)
	if err == nil {
		_, err = c.orders.Write(append(line, '\n'))
	}
	return c, err
}

// read passes on what a contender and its commands tell.
func (c *contender) read(from *os.File, heard func(Event)) {
	defer close(c.drained)
	defer from.Close()
	for lines := bufio.NewScanner(from); lines.Scan(); {
		var e Event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			e.Contender = c.name
			heard(e)
		}
	}
}

func (c *contender) order(what string) error {
	_, err := io.WriteString(c.orders, what+"\n")
	return err
}

// strike is the fault, where it is done to the contender's process.
func (c *contender) strike(f Fault) error {
	switch f {
	case Kill:
		c.ended.Store(true)
		return c.process.Process.Kill()
	case Freeze:
		c.stopped = true
		return c.process.Process.Signal(syscall.SIGSTOP)
	}
	return c.order(orderCut)
}

// mend undoes Freeze and Cut.
func (c *contender) mend() error {
	if c.stopped {
		c.stopped = false
		return c.process.Process.Signal(syscall.SIGCONT)
	}
	return c.order(orderMend)
}

// end tells a contender to end, and kills one that doesn't within limit: its guard stops
// its command then.
func (c *contender) end(limit time.Duration) {
	c.ended.Store(true)
	if c.stopped {
		c.mend()
	}
	c.order(orderEnd)
	c.orders.Close()
	select {
	case <-c.exited:
	case <-time.After(limit):
		c.process.Process.Kill()
		<-c.exited
	}
}

// gone says how a contender has ended that wasn't told to; "": it hasn't.
func (c *contender) gone() string {
	if c.ended.Load() || !isClosed(c.exited) {
		return ""
	}
	return c.process.ProcessState.String()
}
