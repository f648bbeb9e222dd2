package cmd

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"flockd/backends"
	"flockd/runner"
)

type breakQuery struct {
	*stopQuery
	id    *value[string]
	all   *value[bool]
	force *value[bool]
	yes   *value[bool]
}

func (a *app) newBreak() *cobra.Command {
	q := &breakQuery{a.newStopQuery(), newValue("ID", "", parseText), newSwitch(), newSwitch(), newSwitch()}
	cmd := &cobra.Command{
		Use:   "break KEY --reason TEXT [flags]",
		Short: "Ask whoever holds a key to stop",
		Long: "Ask whoever holds KEY to stop. It stops its command as after a loss of the lease,\n" +
			"gives the key back, and exits with 79 and your reason. It is told within 5 seconds,\n" +
			"or with its next renewal, within 30, where the store can't. With --id a place in line\n" +
			"is given up likewise.\n\n" +
			"With --force the key is free now, whether the holder hears of it or not: until\n" +
			"it does, two commands may run.",
		Example:           strings.Trim(breakExamples, "\n"),
		Args:              arguments(1, "KEY"),
		RunE:              q.run,
		ValidArgsFunction: q.completeKey,
	}
	set := cmd.Flags()
	q.registerReason(set, "why; shown to whoever is asked, and recorded with the run. Needed")
	addFlag(set, groupLock, "id", "", q.id, "ask this holder or waiter; as much of its ID as tells it from others will do")
	addSwitch(set, groupLock, "all", "", q.all, "ask all holders, where there are several")
	addSwitch(set, groupLock, "force", "", q.force, "free the key now, without asking; there is nothing to --wait for then")
	addSwitch(set, groupLock, "yes", "y", q.yes, "don't ask back; needed where there is no terminal")
	q.registerWait(set, "wait this long until whoever was asked is gone")
	completeFlags(cmd)
	cmd.RegisterFlagCompletionFunc("id", q.completeID)
	cmd.RegisterFlagCompletionFunc("reason", noWords)
	return cmd
}

const breakExamples = `
# a deployment hangs: ask it to stop, and wait until it has
flockd break deploy/web --reason "hangs at the migration" --wait 2m

# its host is gone for good, and its lease is long
flockd break deploy/web --reason "web2 burnt down" --force --yes
`

func (q *breakQuery) run(cmd *cobra.Command, args []string) error {
	key, err := keyArgument(args)
	if err != nil {
		return err
	}
	if err := q.prepare(cmd, key); err != nil {
		return err
	}
	if err := q.check(); err != nil {
		return err
	}
	status, err := q.inspect(cmd.Context(), key)
	if err != nil {
		return err
	}
	claims, err := q.targets(status)
	if err != nil {
		return err
	}
	if err := q.confirm(status, claims); err != nil {
		return err
	}
	return q.ask(cmd.Context(), key, claims)
}

// check refuses what is missing or makes no sense together.
func (q *breakQuery) check() error {
	switch {
	case !q.reason.given():
		return usage(`--reason "why": whoever is asked will see it`, "no reason is given")
	case q.id.given() && q.id.of == "":
		return usage("", "--id is empty: a variable that is missing here?")
	case q.id.given() && q.all.of:
		return usage("", "--id and --all contradict each other")
	case q.force.of && q.wait.of > 0:
		return usage("leave out one of them",
			"--force and --wait %s contradict each other: by force the key is free at once, and nobody can tell when its command has ended", q.wait.text)
	}
	return q.checkReason()
}

// ask asks the claims to stop.
func (q *breakQuery) ask(ctx context.Context, key string, claims []backends.Claim) error {
	for _, c := range claims {
		again, err := q.leave(ctx, key, c, backends.Break, q.force.of)
		if err != nil && !isNotThere(err) {
			return err
		}
		level, text := q.asked(key, c, again, err)
		q.report(level, text, key, c)
	}
	if q.wait.of == 0 {
		return nil
	}
	_, left, err := q.await(ctx, key, claims)
	switch {
	case err != nil:
		return err
	case len(left) > 0:
		return q.notGone(left[0])
	}
	q.print.say(slog.LevelInfo, "whoever was asked is gone", slog.String("key", key))
	return nil
}

// asked says what has come of a question, and what is to be expected. Whoever was removed
// by an attempt before, or asked to leave the line, is known to the store.
func (q *breakQuery) asked(key string, c backends.Claim, again bool, err error) (slog.Level, string) {
	who := namedOwner(c.Owner)
	switch {
	case err != nil:
		return slog.LevelInfo, goneText(c, again && c.State == backends.Holding && !q.force.of)
	case q.force.of && c.State == backends.Holding:
		return slog.LevelWarn, "took " + key + " from " + who + ": its command may still run, and another one beside it, until it is told, " + q.told(c)
	case q.force.of && c.State == backends.Cooling:
		return slog.LevelInfo, key + ", which was cooling after " + who + ", is free"
	case q.force.of:
		return slog.LevelInfo, "took " + who + " out of the line of " + key
	case c.State == backends.Waiting:
		return slog.LevelInfo, "asked " + who + " to leave the line of " + key + "; it is told " + q.told(c)
	}
	return slog.LevelInfo, "asked " + who + " to stop; it is told " + q.told(c)
}

// notGone says that a claim is still there, and what is to be expected.
func (q *breakQuery) notGone(c backends.Claim) error {
	text, hint := "is still asked to stop, which it is told ", "--force frees the key without waiting for its holder, and two may run"
	if c.State == backends.Waiting {
		text, hint = "is still asked to leave the line, which it is told ", "--force takes it out of the line"
	}
	return &failure{runner.Skipped, fmt.Errorf("%s has not gone within %s; it %s%s", namedOwner(c.Owner), short(q.wait.of), text, q.told(c)), hint}
}

// completeID completes --id with the IDs in the line of the key, and whose they are.
func (q *breakQuery) completeID(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, noFiles
	}
	return q.complete(cmd, args[0], func(ctx context.Context, b backends.Backend, add func(string) bool) {
		status, _ := b.Inspect(ctx, args[0])
		for _, c := range status.Line {
			if strings.HasPrefix(c.ID, begun) && !add(c.ID) {
				return
			}
		}
	}), noFiles
}

func noWords(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, noFiles
}
