package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"flockd/backends"
	"flockd/fence"
)

// CommandName is argv[0] of the command that the contenders run; the drill's folder follows.
const CommandName = "flockd-drill-command"

// What is in the drill's folder.
const (
	lockFile   = "lock"   // locked by the command that lives
	fencedFile = "active" // what the commands write to
)

// lifeFile is locked by one command, for as long as it lives.
func lifeFile(dir string, pid int) string { return filepath.Join(dir, "life-"+strconv.Itoa(pid)) }

const (
	beatEvery  = 50 * time.Millisecond
	writeEvery = 4 * beatEvery // each is three fsyncs
)

// Command is the work of a contender's command: until a signal ends it, it says that it lives,
// and writes to the fenced file with its term. It returns the exit code where it can't.
func Command(dir string, env func(name string) string, events io.Writer) int {
	token, err := strconv.ParseInt(env("FLOCKD_TOKEN"), 10, 64)
	if err != nil {
		return 1
	}
	c := &command{dir: dir, events: events, as: Event{Token: backends.Token(token), ID: env("FLOCKD_ID"), PID: os.Getpid()}}
	err = c.work()
	if !errors.Is(err, unix.EPIPE) { // else nobody is there to be told
		c.say(Event{Kind: Failed, At: now(), Class: "internal", Text: fmt.Sprintf("its command can't go on: %v", err)})
	}
	return 1
}

type command struct {
	dir    string
	events io.Writer
	as     Event // what is the same in all that it says
}

// work ends with an error alone.
func (c *command) work() error {
	if err := c.begin(); err != nil {
		return err
	}
	failed := make(chan error, 2)
	go func() { failed <- c.every(beatEvery, c.beat) }()
	go func() { failed <- c.every(writeEvery, c.write) }()
	return <-failed
}

func (c *command) say(e Event) error {
	e.Token, e.ID, e.PID = c.as.Token, c.as.ID, c.as.PID
	return tell(c.events, e)
}

// begin takes the locks, which last as long as the process, and says that it lives.
func (c *command) begin() error {
	if err := c.lock(lifeFile(c.dir, c.as.PID)); err != nil {
		return err
	}
	err := c.lock(filepath.Join(c.dir, lockFile))
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		return err
	}
	return c.say(Event{Kind: Started, At: now(), Alone: err == nil})
}

// lock fails with EWOULDBLOCK where somebody else has it.
func (c *command) lock(name string) error {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
}

// every does something at once, and then again until it fails.
func (c *command) every(d time.Duration, do func() error) error {
	for tick := time.NewTicker(d); ; <-tick.C {
		if err := do(); err != nil {
			return err
		}
	}
}

func (c *command) beat() error { return c.say(Event{Kind: Beat, At: now()}) }

func (c *command) write() error {
	e, err := write(c.dir, c.as.Token)
	if err != nil {
		return err
	}
	return c.say(e)
}

// write tries a write to the fenced file with a token, and says what has come of it.
func write(dir string, token backends.Token) (Event, error) {
	e := Event{At: now(), Token: token}
	content := strings.NewReader(fmt.Sprintln("written with token", token))
	err := fence.Replace(context.Background(), filepath.Join(dir, fencedFile), token, content)
	e.Until, e.Kind = now(), Wrote
	if errors.Is(err, backends.ErrStale) {
		e.Kind, err = Refused, nil
	}
	return e, err
}
