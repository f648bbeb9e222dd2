package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flockd/backends"
	"flockd/drill"
	"flockd/runner"
)

// drillSuffix makes the drill's key of the user's.
const drillSuffix = ".drill"

type drillQuery struct {
	*query
	kill, freeze, cut *value[bool]

	key   string // the drill's
	fault drill.Fault
}

func (a *app) newDrill() *cobra.Command {
	q := &drillQuery{query: a.newQuery(), kill: newSwitch(), freeze: newSwitch(), cut: newSwitch()}
	q.opener = a.open
	q.settings.ttl = newValue("DUR", electTTL, atLeast(time.Second))
	cmd := &cobra.Command{
		Use:   "drill --key KEY [--kill|--freeze|--cut] [flags]",
		Short: "Rehearse a change of leader with throw-away commands",
		Long: "Rehearse a change of leader on the store that you use, under KEY.drill: two\n" +
			"contenders on this host campaign with a throw-away command each, the one that\n" +
			"leads is disturbed, and a report says who ran from when to when. Nothing is done\n" +
			"to KEY itself, whose leader runs on.\n\n" +
			"Without a fault the leader is asked to resign, as by flockd resign.\n\n" +
			"The throw-away commands end at once: how long yours takes to stop is not seen.",
		Example:           strings.Trim(drillExamples, "\n"),
		Args:              keyIsFlag,
		RunE:              q.run,
		ValidArgsFunction: noWords,
	}
	set := cmd.Flags()
	addFlag(set, groupLock, "key", "k", q.settings.key, "the key of the election; the drill's own is KEY"+drillSuffix)
	addFlag(set, groupLock, "ttl", "", q.settings.ttl, "length of the lease, as of flockd elect")
	addSwitch(set, groupCommand, "kill", "", q.kill, "kill the leader's flockd (SIGKILL), and not its guard")
	addSwitch(set, groupCommand, "freeze", "", q.freeze, "stop the leader's flockd (SIGSTOP), and let it go on (SIGCONT) when the other leads")
	addSwitch(set, groupCommand, "cut", "", q.cut, "cut the leader off from the store until the other leads: each of its calls hangs in flockd itself, whatever the store")
	q.registerJSON(set, "print the report as a JSON object")
	addSwitch(set, groupOutput, "verbose", "v", q.settings.verbose, "say what the contenders see")
	q.register(set, "print nothing but what has gone wrong")
	completeFlags(cmd)
	return cmd
}

const drillExamples = `
# what a leader that is cut off from the store costs
flockd drill --key svc --cut

# in CI, with a short lease: does the store keep two leaders apart?
flockd drill --key svc --freeze --ttl 3s --json >drill.json
`

func (q *drillQuery) run(cmd *cobra.Command, _ []string) error {
	if q.Process {
		inheritedDescriptors() // they are not for the contenders
	}
	if err := q.prepareDrill(cmd); err != nil {
		return err
	}
	ctx, _ := q.untilSignal(cmd.Context())
	o, err := q.options(ctx)
	if err != nil {
		return q.interrupted(ctx, err)
	}
	defer o.Backend.Close()
	q.print.say(slog.LevelInfo, q.plan(o.Lease.TTL), q.attrs()...)
	q.lines.flush() // before it begins
	report, began, err := drill.Run(ctx, o)
	if err != nil {
		return q.interrupted(ctx, q.undone(err))
	}
	return q.tell(report, began)
}

// prepareDrill finds out what is to be done, and begins to open the store.
func (q *drillQuery) prepareDrill(cmd *cobra.Command) error {
	if err := q.checkFlags(cmd); err != nil {
		return err
	}
	key := q.settings.key
	switch {
	case !key.given():
		return usage("flockd drill --key svc", "no key is given: --key KEY")
	case q.quiet.of && q.json.of:
		return usage("", "--quiet and --json contradict each other")
	case q.quiet.of && q.settings.verbose.of:
		return usage("", "--quiet and --verbose contradict each other")
	}
	if err := q.chooseFault(); err != nil {
		return err
	}
	q.key = key.of + drillSuffix
	if err := backends.CheckKey(q.key); err != nil {
		return usage("", "--key, with %s behind it: %w", drillSuffix, err)
	}
	return q.prepare(cmd, key.of)
}

// chooseFault takes the one that is asked for.
func (q *drillQuery) chooseFault() error {
	var names []string
	q.fault = drill.Resign
	for _, f := range []struct {
		flag *value[bool]
		of   drill.Fault
	}{{q.kill, drill.Kill}, {q.freeze, drill.Freeze}, {q.cut, drill.Cut}} {
		if f.flag.of {
			names, q.fault = append(names, "--"+string(f.of)), f.of
		}
	}
	if len(names) > 1 {
		return usage("one drill has one fault", "%s contradict each other", strings.Join(names, " and "))
	}
	return nil
}

// options open the store and take the drill's key: nobody else may be there.
func (q *drillQuery) options(ctx context.Context) (o drill.Options, err error) {
	o = drill.Options{Fault: q.fault, By: owner(q.Streams, "flockd", ""), Stderr: q.Stderr, Verbose: q.settings.verbose.of}
	o.Backend, err = ask(ctx, q.query, func(_ context.Context, b backends.Backend) (backends.Backend, error) { return b, nil })
	if err != nil {
		return o, err
	}
	o.Lease, err = q.take(ctx, o.Backend, o.By)
	o.Store = absolute(o.Backend, q.url).Full()
	if err != nil {
		o.Backend.Close()
	}
	return o, err
}

// take takes the drill's key. Where that fails no claim is left, as far as the store can be
// reached.
func (q *drillQuery) take(ctx context.Context, store backends.Backend, by backends.Owner) (backends.Lease, error) {
	ttl := q.settings.ttl.of
	if err := (&runOptions{ttl: ttl, grace: runner.DefaultGrace}).checkGrace(store.Traits()); err != nil {
		return backends.Lease{}, err
	}
	req := backends.Request{Key: q.key, ID: backends.NewID(), Owner: by, Mode: backends.Exclusive, TTL: ttl}
	var held *backends.HeldError
	lease, err := ask(ctx, q.query, func(ctx context.Context, b backends.Backend) (backends.Lease, error) {
		lease, err := b.Acquire(ctx, req)
		if errors.As(err, &held) {
			return lease, nil
		}
		return lease, err
	})
	switch {
	case err != nil:
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryAtMost)
		defer cancel()
		store.Release(limited, q.key, req.ID, backends.Outcome{})
		return lease, err
	case held != nil:
		return lease, &failure{runner.Skipped, fmt.Errorf("%s is %s", q.key, heldText(held, wish{})), "another drill? It is over when the key is free: flockd status " + shortened(q.key)}
	}
	return lease, nil
}

// interrupted is err, or the signal that it comes from.
func (q *drillQuery) interrupted(ctx context.Context, err error) error {
	var i *interrupt
	if errors.As(context.Cause(ctx), &i) {
		return &ended{result: runner.Result{Class: runner.Interrupted, Signal: i.signal}}
	}
	return err
}

// undone is why a drill has come to nothing.
func (q *drillQuery) undone(err error) error {
	class := runner.Unavailable
	var c *drill.ContenderError
	var h *drill.HostError
	if errors.As(err, &c) && c.Class != string(runner.Unavailable) || errors.As(err, &h) {
		class = runner.Internal
	}
	return &failure{class, fmt.Errorf("the drill of %s has come to nothing: %w", q.settings.key.of, err), ""}
}

// attrs are of each record in JSON.
func (q *drillQuery) attrs() []slog.Attr {
	return []slog.Attr{slog.String("key", q.key), slog.String("backend", q.address()), slog.String("fault", string(q.fault))}
}

// plan says what will be done, where, and for how long.
func (q *drillQuery) plan(ttl time.Duration) string {
	what, usual := "is asked to resign", 3*time.Second
	switch q.fault {
	case drill.Kill:
		what = "is killed"
	case drill.Freeze:
		what, usual = "is stopped until the other leads", ttl+usual
	case drill.Cut:
		what, usual = "is cut off from the store until the other leads", ttl+usual
	}
	return fmt.Sprintf("drill: two contenders for %s in %s, TTL %s; the one that leads %s; usually done in %s, given up after %s",
		q.key, q.address(), short(ttl), what, short(usual), short(drill.Longest(ttl)))
}
