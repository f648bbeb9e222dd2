package cmd

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flockd/backends"
	"flockd/runner"
)

type resignQuery struct{ *stopQuery }

func (a *app) newResign() *cobra.Command {
	q := &resignQuery{a.newStopQuery()}
	q.wait = newValue("DUR|forever", "0", parseWait)
	cmd := &cobra.Command{
		Use:   "resign --key KEY [flags]",
		Short: "Ask the leader to step down",
		Long: "Ask whoever leads to step down: its command is stopped, then KEY is given to the\n" +
			"next in line, and flockd elect campaigns again behind the others; with nobody else\n" +
			"in line the same one leads again. flockd run ends with 79 instead. To take a host\n" +
			"out of service stop its flockd elect (TERM): it resigns, and stands in no line.\n\n" +
			"It asks, and takes nothing away: a leader that is frozen or cut off doesn't hear it,\n" +
			"and its lease ends by itself.",
		Example: strings.Trim(resignExamples, "\n"),
		Args:    keyIsFlag,
		RunE:    q.run,
	}
	set := cmd.Flags()
	q.registerKey(cmd, "the key whose leader is meant")
	q.registerReason(set, "why; shown to the leader, and recorded with its run")
	q.registerWait(set, "wait this long until that term is over")
	cmd.RegisterFlagCompletionFunc("reason", noWords)
	completeFlags(cmd)
	return cmd
}

const resignExamples = `
# move the leadership to the next in line, and see who that is
flockd resign --key svc --reason "web2 is slow" --wait 1m
`

func (q *resignQuery) run(cmd *cobra.Command, _ []string) error {
	key, err := q.keyFlag(cmd)
	if err != nil {
		return err
	}
	if err := q.prepare(cmd, key); err != nil {
		return err
	}
	if err := q.checkReason(); err != nil {
		return err
	}
	status, err := q.inspect(cmd.Context(), key)
	if err != nil {
		return err
	}
	leader := leaderOf(status)
	if leader == nil {
		return q.nothing(key, q.noLeader(status))
	}
	if err := q.ask(cmd.Context(), status, *leader); err != nil || q.wait.of == 0 {
		return err
	}
	return q.over(cmd.Context(), key, *leader)
}

// ask asks the leader of status to resign.
func (q *resignQuery) ask(ctx context.Context, status backends.Status, c backends.Claim) error {
	again, err := q.leave(ctx, status.Key, c, backends.Resign, false)
	switch {
	case isNotThere(err):
		q.report(slog.LevelInfo, goneText(c, again), status.Key, c)
		return nil
	case err != nil:
		return err
	}
	q.report(slog.LevelInfo, "asked "+namedOwner(c.Owner)+" to resign; "+q.hears(status, c), status.Key, c)
	if !slices.ContainsFunc(status.Line, isNext) {
		q.report(slog.LevelWarn, "nobody else is in line for "+status.Key+": under flockd elect the same one will likely lead again", status.Key, c)
	}
	return nil
}

// isNext reports whether a claim waits, and stays.
func isNext(c backends.Claim) bool {
	return c.State == backends.Waiting && c.Notice == backends.Notice{}
}

// over waits until the term is, for --wait at most.
func (q *resignQuery) over(ctx context.Context, key string, c backends.Claim) error {
	status, left, err := q.await(ctx, key, []backends.Claim{c})
	switch {
	case err != nil:
		return err
	case len(left) > 0:
		return &failure{runner.Skipped,
			fmt.Errorf("%s has not resigned within %s; it is still asked to, and %s", namedOwner(c.Owner), short(q.wait.of), q.hears(status, left[0])),
			endsText(status, left[0]) + "; only then flockd break --force, which frees the key without waiting for it, and two may run"}
	}
	text := fmt.Sprintf("term %d of %s is over", c.Token, namedOwner(c.Owner))
	if next := q.next(ctx, status); next != nil {
		text += fmt.Sprintf("; %s leads now, term %d", namedOwner(next.Owner), next.Token)
	}
	q.report(slog.LevelInfo, text, key, c)
	return nil
}

// hears is when the leader is told, which is sure of one that the store has just heard of.
func (q *resignQuery) hears(status backends.Status, c backends.Claim) string {
	within := q.toldIn(c)
	text := "it is told " + inSeconds(within)
	switch {
	case c.Renewed.IsZero() || status.AsOf.IsZero():
		text += " if it is up"
	case status.AsOf.Sub(c.Renewed) > within:
		text += " if it is up: it was last renewed " + age(status.AsOf.Sub(c.Renewed)) + " ago"
	}
	return text
}

// endsText is when the lease of a leader that hears nothing ends: within the whole of it where the
// store doesn't know what is left.
func endsText(status backends.Status, c backends.Claim) string {
	left := c.TTL
	if !c.Expires.IsZero() && !status.AsOf.IsZero() {
		left = max(0, c.Expires.Sub(status.AsOf))
	}
	text := "its lease ends by itself "
	if left > 0 {
		text += inSeconds(left) + " "
	}
	return text + "unless it is renewed"
}

// succeeding is how long a next leader is looked for after a term: the first in line hears of the
// end of it sooner.
const succeeding = 2 * time.Second

// next is who leads after a term that is over: whoever is first in line is granted the key by its
// own request. nil: nobody does, or it can't be seen.
func (q *resignQuery) next(ctx context.Context, status backends.Status) *backends.Claim {
	poll(ctx, succeeding, func() (bool, error) {
		if leaderOf(status) != nil || len(status.Line) == 0 {
			return true, nil
		}
		again, err := q.inspect(ctx, status.Key)
		status = again
		return false, err
	})
	return leaderOf(status)
}
