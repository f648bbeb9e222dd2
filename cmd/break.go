package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"flockd/backends"
	"flockd/runner"
)

type breakQuery struct {
	*query
	id     *value[string]
	reason *value[string]
	wait   *value[time.Duration]
	all    *value[bool]
	force  *value[bool]
	yes    *value[bool]
}

func (a *app) newBreak() *cobra.Command {
	q := &breakQuery{
		query: a.newQuery(), id: newValue("ID", "", parseText), reason: newValue("TEXT", "", parseReason),
		wait: newValue("DUR", "0", atLeast(0)), all: newSwitch(), force: newSwitch(), yes: newSwitch(),
	}
	cmd := &cobra.Command{
		Use:   "break KEY --reason TEXT [flags]",
		Short: "Ask whoever holds a key to stop",
		Long: "Ask whoever holds KEY to stop. It stops its command as after a loss of the lease,\n" +
			"gives the key back, and exits with 79 and your reason. It is told with its next\n" +
			"renewal, within 30 seconds, or at once where the store can. With --id a place in\n" +
			"line is given up likewise.\n\n" +
			"With --force the key is free now, whether the holder hears of it or not: until\n" +
			"it does, two commands may run.",
		Example:           strings.Trim(breakExamples, "\n"),
		Args:              arguments(1, "KEY"),
		RunE:              q.run,
		ValidArgsFunction: q.completeKey,
	}
	set := cmd.Flags()
	addFlag(set, groupLock, "reason", "", q.reason, "why; shown to whoever is asked, and recorded with the run. Needed")
	addFlag(set, groupLock, "id", "", q.id, "ask this holder or waiter; as much of its ID as tells it from others will do")
	addSwitch(set, groupLock, "all", "", q.all, "ask all holders, where there are several")
	addSwitch(set, groupLock, "force", "", q.force, "free the key now, without asking; there is nothing to --wait for then")
	addSwitch(set, groupLock, "yes", "y", q.yes, "don't ask back; needed where there is no terminal")
	addFlag(set, groupWaiting, "wait", "w", q.wait, "wait this long until whoever was asked is gone")
	q.register(set, "say only what has gone wrong")
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

// maxReason bounds what whoever is asked has to read, in bytes.
const maxReason = maxNote

func parseReason(text string) (string, error) {
	switch {
	case len(text) > maxReason:
		return "", fmt.Errorf("a reason has %d bytes at most, this one %d", maxReason, len(text))
	case !utf8.ValidString(text):
		return "", errors.New("not valid UTF-8")
	case strings.ContainsFunc(text, unicode.IsControl):
		return "", errors.New("a reason has no control characters")
	}
	return text, nil
}

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
	case strings.TrimSpace(q.reason.of) == "":
		return usage("", "--reason is empty: a variable that is missing here?")
	case q.id.given() && q.id.of == "":
		return usage("", "--id is empty: a variable that is missing here?")
	case q.id.given() && q.all.of:
		return usage("", "--id and --all contradict each other")
	case q.force.of && q.wait.of > 0:
		return usage("leave out one of them",
			"--force and --wait %s contradict each other: by force the key is free at once, and nobody can tell when its command has ended", q.wait.text)
	}
	return nil
}

// ask asks the claims to stop.
func (q *breakQuery) ask(ctx context.Context, key string, claims []backends.Claim) error {
	notice := backends.Notice{Kind: backends.Break, By: owner(q.Streams, "flockd", ""), Reason: q.reason.of, Force: q.force.of}
	for _, c := range claims {
		again, err := change(ctx, q.query, func(ctx context.Context, b backends.Backend) (struct{}, error) {
			return struct{}{}, b.Ask(ctx, key, c.ID, notice)
		})
		if err != nil && !isNotThere(err) {
			return err
		}
		level, text := q.asked(key, c, again, err)
		q.print.say(level, text, slog.String("key", key), slog.String("backend", q.address()), slog.String("id", c.ID))
	}
	return q.await(ctx, key, claims)
}

// asked says what has come of a question, and what is to be expected. Whoever was removed
// by an attempt before, or asked to leave the line, is known to the store.
func (q *breakQuery) asked(key string, c backends.Claim, again bool, err error) (slog.Level, string) {
	who := namedOwner(c.Owner)
	switch {
	case err != nil && again && c.State == backends.Holding && !q.force.of:
		return slog.LevelInfo, who + " has gone, by itself or since it was asked"
	case err != nil:
		return slog.LevelInfo, who + " has gone by itself"
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

// told says when a claim hears of a notice: with its next question, unless the store can
// tell it sooner, be it that flockd looks every few seconds.
func (q *breakQuery) told(c backends.Claim) string {
	if _, ok := backends.As[backends.Watcher](q.store); !ok && c.State != backends.Waiting {
		return "within 30 s"
	}
	return "within 5 s"
}

// await waits until the claims are gone, for --wait.
func (q *breakQuery) await(ctx context.Context, key string, claims []backends.Claim) error {
	if q.wait.of == 0 {
		return nil
	}
	for end := time.Now().Add(q.wait.of); ; time.Sleep(min(watchEvery, time.Until(end))) {
		status, err := q.inspect(ctx, key)
		if err != nil {
			return err
		}
		left := still(status, claims)
		switch {
		case len(left) == 0:
			q.print.say(slog.LevelInfo, "whoever was asked is gone", slog.String("key", key))
			return nil
		case !time.Now().Before(end):
			return q.notGone(left[0])
		}
	}
}

// notGone says that a claim is still there, and what is to be expected.
func (q *breakQuery) notGone(c backends.Claim) error {
	text, hint := "is still asked to stop, which it is told ", "--force frees the key without waiting for its holder, and two may run"
	if c.State == backends.Waiting {
		text, hint = "is still asked to leave the line, which it is told ", "--force takes it out of the line"
	}
	return &failure{runner.Skipped, fmt.Errorf("%s has not gone within %s; it %s%s", namedOwner(c.Owner), short(q.wait.of), text, q.told(c)), hint}
}

// still are those of the claims that hold or wait.
func still(status backends.Status, claims []backends.Claim) (left []backends.Claim) {
	for _, now := range status.Line {
		for _, c := range claims {
			if now.ID == c.ID && now.State != backends.Cooling {
				left = append(left, now)
			}
		}
	}
	return left
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
