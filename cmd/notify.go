package cmd

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"flockd/election"
)

// serviceManagers are the variables by which systemd, and whoever else does as it, lets itself be told
// how a service is. They are flockd's alone: its command would speak in its name.
var serviceManagers = []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}

func isServiceManagers(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains(serviceManagers, name)
}

const (
	statusesKept = 16  // the latest ones, for a service manager that doesn't read
	statusAtMost = 400 // characters
)

// notifier tells the service manager how a candidate is, from a goroutine of its own: a socket
// that nobody reads holds up no election.
type notifier struct {
	send  func(message string) error // nil: there is nobody to tell
	clean func(string) string
	warn  func(text string)
	every time.Duration     // how often the watchdog wants to hear that all is well; 0: there is none
	asks  chan chan<- error // see election.Options

	changes  chan struct{} // something is pending
	quit     chan struct{}
	finished chan struct{}

	mu      sync.Mutex
	pending []string // messages in order
	status  string   // the latest one
	ready   bool
	ends    bool
}

// newNotifier tells nobody where no service manager asks to be told.
func (r *lockedRun) newNotifier() *notifier {
	n := &notifier{clean: r.print.clean, warn: func(text string) { r.say(slog.LevelWarn, text) }}
	if r.Process && r.getenv("NOTIFY_SOCKET") != "" {
		n.send = func(message string) error { _, err := daemon.SdNotify(false, message); return err }
		interval, err := daemon.SdWatchdogEnabled(false)
		if err != nil {
			n.warn("the watchdog is not served: " + err.Error())
		}
		n.every = interval / 2
	}
	n.begin()
	return n
}

func (n *notifier) begin() {
	n.asks, n.changes = make(chan chan<- error), make(chan struct{}, 1)
	n.quit, n.finished = make(chan struct{}), make(chan struct{})
	if n.send == nil {
		close(n.finished)
		return
	}
	go n.loop()
}

// changed takes a change of the candidate. It is ready once it campaigns, and not when it is
// elected: it may have to wait for that for years.
func (n *notifier) changed(s election.State) {
	if s.Phase != election.Campaigning || s.Held != nil || s.Err != nil {
		n.once(&n.ready, daemon.SdNotifyReady)
	}
	var resigned *election.ResignedError
	if errors.As(s.Err, &resigned) {
		n.once(&n.ends, daemon.SdNotifyStopping)
	}
}

func (n *notifier) once(said *bool, message string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !*said {
		*said = true
		n.put(message)
	}
}

// shows has the service manager show a text.
func (n *notifier) shows(text string) {
	text = n.clean(text)
	if r := []rune(text); len(r) > statusAtMost {
		text = string(r[:statusAtMost]) + "…"
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if text != n.status {
		n.status = text
		n.put(statusPrefix + text)
	}
}

const statusPrefix = "STATUS="

// put has a message sent, soon. Where too many wait, a text that is history is dropped.
func (n *notifier) put(message string) {
	if len(n.pending) >= statusesKept {
		i := slices.IndexFunc(n.pending, func(m string) bool { return strings.HasPrefix(m, statusPrefix) })
		n.pending = slices.Delete(n.pending, i, i+1)
	}
	n.pending = append(n.pending, message)
	select {
	case n.changes <- struct{}{}:
	default:
	}
}

func (n *notifier) taken() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	messages := n.pending
	n.pending = nil
	return messages
}

// end waits until all is told, but not for long. Who never was ready isn't stopping.
func (n *notifier) end() {
	if n.ready {
		n.once(&n.ends, daemon.SdNotifyStopping)
	}
	close(n.quit)
	select {
	case <-n.finished:
	case <-time.After(flushFor):
	}
}

func (n *notifier) loop() {
	defer close(n.finished)
	dog := watchdog{notifier: n}
	ticks, stop := n.ticks()
	defer stop()
	for {
		select {
		case <-n.changes:
			n.tell(n.taken()...)
		case <-ticks:
			dog.due()
		case dog.ask <- dog.answer:
			dog.ask = nil
		case wrong := <-dog.answer:
			dog.hears(wrong)
		case <-n.quit:
			n.tell(n.taken()...)
			return
		}
	}
}

func (n *notifier) ticks() (ticks <-chan time.Time, stop func()) {
	if n.every <= 0 {
		return nil, func() {}
	}
	ticker := time.NewTicker(n.every)
	return ticker.C, ticker.Stop
}

// tell sends messages. That it can't is said once.
func (n *notifier) tell(messages ...string) {
	for _, m := range messages {
		if err := n.send(m); err != nil {
			n.warn("the service manager can't be told: " + err.Error())
			n.warn = func(string) {}
		}
	}
}

// watchdog asks the election how it is, whenever a sign of life is due. Where it doesn't answer,
// or something is wrong, there is none.
type watchdog struct {
	*notifier
	ask    chan<- chan<- error // nil: it has been asked
	answer chan error          // nil: there was one
	wrong  bool
}

func (d *watchdog) due() { d.ask, d.answer = d.asks, make(chan error, 1) }

func (d *watchdog) hears(wrong error) {
	d.answer = nil
	if wrong == nil {
		d.wrong = false
		d.tell(daemon.SdNotifyWatchdog)
		return
	}
	if !d.wrong {
		d.wrong = true
		d.warn("no sign of life for the watchdog: " + wrong.Error())
	}
}
