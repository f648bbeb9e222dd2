package cmd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"flockd/backends"
	"flockd/election"
	"flockd/runner"
	"flockd/runner/tty"
)

// classResigned is a candidate that was told to end, and has.
const classResigned runner.Class = "resigned"

func (a *app) newElect() *cobra.Command {
	s := newElectSettings()
	cmd := &cobra.Command{
		Use:   "elect --key KEY [flags] -- COMMAND [ARG...]",
		Short: "Keep one of several instances of a command running",
		Long: "Campaign for KEY and, as the leader, run COMMAND for as long as the lease on KEY\n" +
			"can be renewed: of all candidates' commands one runs at most. It is stopped\n" +
			"before anybody else can be elected, and flockd campaigns again, at the end of\n" +
			"the line. TERM makes it resign: COMMAND is stopped, and the next one elected.\n\n" +
			"A term is one hold of KEY, and its number the fencing token, FLOCKD_TOKEN. KEY\n" +
			"is that of flockd run: elections and runs of it exclude each other. Each host\n" +
			"that is elected runs COMMAND, be it done on another one: what must run once is\n" +
			"for flockd run --once ID -w DUR.",
		Example: strings.Trim(electExamples, "\n"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkValues(cmd.Flags(), a.Args); err != nil {
				return err
			}
			o, err := s.electOptions(a.Streams, args)
			if err != nil {
				a.print = newPrinter(a.lines, s.logFormat.of == "json", false, false)
				return err
			}
			return a.elect(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeCommand,
	}
	s.register(cmd.Flags())
	cmd.Flags().SetInterspersed(false)
	completeFlags(cmd)
	return cmd
}

const electExamples = `
# on each host: one of them runs the importer, and another takes over
FLOCKD_BACKEND=etcd://etcd1,etcd2,etcd3 flockd elect -k importer -- /usr/local/bin/importer

# tell the log of each change
flockd elect -k importer --on-elected 'logger "leads, term $FLOCKD_TOKEN"' --on-deposed 'logger "deposed: $FLOCKD_DEPOSED"' -- importer

# a first try: flockd ends with the command, and no second term follows
flockd elect -k try --restart never -c 'echo "leads, term $FLOCKD_TOKEN"; sleep 10'
`

// runCandidate campaigns until it is told to end, and reports how it came out.
func (a *app) runCandidate(ctx context.Context, o *electOptions) error {
	c := &candidate{lockedRun: a.begin(o.runOptions), o: o}
	c.notifier = c.newNotifier()
	c.Env = slices.DeleteFunc(slices.Clone(c.Env), isServiceManagers)
	c.account = &account{key: o.key, say: c.say, status: c.notifier.shows}
	res := c.do(ctx)
	c.notifier.end()
	c.report(res)
	return &ended{endOf(res), nil}
}

// endOf is how a candidate ended, as the class that has its exit code.
func endOf(res election.Result) runner.Result {
	r := res.Result
	switch {
	case !res.Resigned, r.Class == runner.Lost && !runner.WasAsked(r.Err):
	case r.Signal == 0, r.Signal == syscall.SIGTERM:
		r.Class = classResigned
	default:
		r.Class = runner.Interrupted // by which flockd ends
	}
	return r
}

// candidate is one call of flockd elect.
type candidate struct {
	*lockedRun
	o        *electOptions
	account  *account
	notifier *notifier
	warned   bool // of what the store is worth
}

func (c *candidate) do(ctx context.Context) election.Result {
	store, path, err := c.open(slog.LevelWarn, "election")
	if err != nil {
		return election.Result{Result: resultOf(err)}
	}
	defer store.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return election.Result{Result: resultOf(err)}
	}
	defer null.Close()
	terminal := tty.Open()
	defer terminal.Close()
	return election.Campaign(ctx, election.Options{
		Term:      c.term(store, path),
		Restart:   c.o.restart,
		OnElected: c.hook(c.o.onElected, store, null),
		OnDeposed: c.hook(c.o.onDeposed, store, null),
		Signals:   c.signals,
		Terminal:  terminal != nil,
		Changed:   c.changed,
		Gone:      c.account.gone,
		Asks:      c.notifier.asks,
	})
}

// term is what each term is run with.
func (c *candidate) term(store backends.Backend, path string) runner.Options {
	return runner.Options{
		Backend: store,
		Request: backends.Request{Key: c.key, Owner: c.who, Mode: backends.Exclusive, TTL: c.ttl},
		Chain:   c.chain,
		Command: c.command(path, store),
		Grace:   c.grace,
		Log:     c.print.log,
		OnGrant: func(backends.Lease) error {
			if !c.warned {
				c.warned = true
				c.nameCaveat(store)
			}
			return nil
		},
		Clean:  c.print.clean,
		Legacy: func(lease backends.Lease) []byte { return c.ofTerm(lease).legacy(store, lease) },
	}
}

// ofTerm is the run that a term is.
func (c *candidate) ofTerm(lease backends.Lease) *lockedRun {
	r := *c.lockedRun
	r.file = &resultFile{record: r.record(lease.ID)}
	return &r
}

// hook runs a line of shell beside the command; nil: there is none.
func (c *candidate) hook(line string, store backends.Backend, stdin *os.File) *election.Hook {
	if line == "" {
		return nil
	}
	command := c.command("/bin/sh", store)
	command.Args, command.Stdin, command.Inherit = []string{"/bin/sh", "-c", line}, stdin, nil
	return &election.Hook{Command: command, Limit: c.o.hookLimit}
}

// changed follows the election, and mustn't hold it up.
func (c *candidate) changed(s election.State) {
	c.notifier.changed(s) // READY comes first
	c.account.changed(s)
}

// report says how it ended, where that isn't plain from what was said before.
func (c *candidate) report(res election.Result) {
	if c.account.ended(res) {
		return
	}
	class := slog.String("class", string(res.Class))
	switch res.Class {
	case runner.Unavailable:
		c.say(slog.LevelError, fmt.Sprintf("can't campaign for %s: %s", c.key, c.whyUnavailable(res.Err)), class)
		c.hint(res.Err)
	case runner.Nested:
		c.say(slog.LevelError, fmt.Sprintf("%s is %s; the holder encloses this candidate, which would never be elected", c.key, heldText(c.enclosing(res.Held), c.wish())), class)
		c.print.say(slog.LevelError, "hint: leave the inner flockd elect out, or give it another key")
	case runner.Interrupted:
		c.say(slog.LevelInfo, fmt.Sprintf("no longer a candidate for %s: signal %s", c.key, signalName(res.Signal)), class)
	default:
		c.lockedRun.report(res.Result)
	}
}
