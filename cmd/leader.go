package cmd

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flockd/backends"
	"flockd/runner"
)

// noLeader is the exit code of leader where there is none.
const noLeader exited = 1

type leaderQuery struct {
	*query
	wait  *value[time.Duration]
	watch *value[bool]
}

func (a *app) newLeader() *cobra.Command {
	q := &leaderQuery{a.newQuery(), newValue("DUR|forever", "0", parseWait), newSwitch()}
	cmd := &cobra.Command{
		Use:   "leader --key KEY [flags]",
		Short: "Show who leads, since when, and in which term",
		Long: "Show who leads: who has KEY alone, be it by flockd elect or by flockd run. A term\n" +
			"is one hold of KEY, and its number the fencing token, FLOCKD_TOKEN. Without a\n" +
			"leader say why, and exit with 1.",
		Example: strings.Trim(leaderExamples, "\n"),
		Args:    keyIsFlag,
		RunE:    q.run,
	}
	set := cmd.Flags()
	q.registerKey(cmd, "the key that candidates campaign for")
	addFlag(set, groupWaiting, "wait", "w", q.wait, "wait this long until there is a leader")
	q.registerJSON(set, "print one JSON object")
	addSwitch(set, groupOutput, "watch", "", q.watch, "keep looking, about once a second: on a terminal draw it anew, else print a line for each change of leader")
	q.register(set, "print nothing, and exit with 0 if there is a leader, 1 if there is none")
	completeFlags(cmd)
	return cmd
}

const leaderExamples = `
# who leads?
flockd leader --key svc

# at boot: go on when somebody leads
flockd leader --key svc --wait 1m -q

# where to send the writes
flockd leader --key svc --json | jq -r '.leader.owner.host'
`

func (q *leaderQuery) run(cmd *cobra.Command, _ []string) error {
	key, err := q.keyFlag(cmd)
	if err != nil {
		return err
	}
	if err := q.check(); err != nil {
		return err
	}
	if err := q.prepare(cmd, key); err != nil {
		return err
	}
	if q.watch.of {
		return q.show(cmd.Context(), true, func(ctx context.Context) (picture, error) {
			status, err := q.inspect(ctx, key)
			return q.picture(status), err
		})
	}
	return q.answer(cmd.Context(), key)
}

// check refuses what makes no sense together.
func (q *leaderQuery) check() error {
	switch {
	case q.quiet.of && q.json.of:
		return usage("", "--quiet and --json contradict each other")
	case q.quiet.of && q.watch.of:
		return usage("", "--quiet and --watch contradict each other")
	case q.watch.of && q.wait.given():
		return usage("", "--watch and --wait contradict each other: a watch has no end")
	}
	return nil
}

func (q *leaderQuery) answer(ctx context.Context, key string) error {
	status, err := q.await(ctx, key)
	if err != nil {
		return err
	}
	if !q.quiet.of {
		err = q.show(ctx, false, func(context.Context) (picture, error) { return q.picture(status), nil })
	}
	if err == nil && leaderOf(status) == nil {
		return noLeader
	}
	return err
}

// await looks until there is a leader, for --wait at most. A store that gives no answer is asked
// again for as long.
func (q *leaderQuery) await(ctx context.Context, key string) (status backends.Status, err error) {
	ctx, stop := whileRead(ctx, q.Stdout)
	defer stop()
	w := &watching{query: q.query}
	_, ended := poll(ctx, q.wait.of, func() (bool, error) {
		began := time.Now()
		status, err = q.inspect(ctx, key)
		switch {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case err != nil && (isFinal(err) || resultOf(err).Class != runner.Unavailable):
			return false, err
		case err == nil:
			w.sayBack(nil)
		case q.wait.of != 0:
			w.sayAway(began, err, nil)
		}
		return err == nil && leaderOf(status) != nil, nil
	})
	if ended != nil {
		err = ended
	}
	return status, err
}

// leaderOf is the claim of whoever has the key alone; nil: nobody has.
func leaderOf(status backends.Status) *backends.Claim {
	i := slices.IndexFunc(status.Line, func(c backends.Claim) bool {
		return c.State == backends.Holding && c.Mode == backends.Exclusive
	})
	if i < 0 {
		return nil
	}
	return &status.Line[i]
}
