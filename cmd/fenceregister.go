package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"flockd/backends"
)

func (a *app) newFenceShow() *cobra.Command {
	q := a.newFenceQuery(false)
	cmd := &cobra.Command{
		Use:               "show RESOURCE [flags]",
		Short:             "Show the largest token that was admitted",
		Long:              "Print the largest token that RESOURCE has seen.",
		Args:              arguments(1, "RESOURCE"),
		RunE:              q.show,
		ValidArgsFunction: noWords,
	}
	q.registerJSON(cmd.Flags(), "print a JSON object")
	q.register(cmd.Flags(), "don't say that none has been admitted")
	completeFlags(cmd)
	return cmd
}

func (a *app) newFenceReset() *cobra.Command {
	q := a.newFenceQuery(true)
	cmd := &cobra.Command{
		Use:   "reset RESOURCE --to N [flags]",
		Short: "Set the largest token, for moving to another store",
		Long: "Make N the largest token that RESOURCE has seen. Tokens of different stores don't\n" +
			"compare: after the move of a lock to a store whose tokens are smaller, no writer\n" +
			"would be admitted any more. To set it down takes --force.",
		Args:              arguments(1, "RESOURCE"),
		RunE:              q.reset,
		ValidArgsFunction: noWords,
	}
	addFlag(cmd.Flags(), groupLock, "to", "", q.token, "the largest token from now on. Needed")
	addSwitch(cmd.Flags(), groupLock, "force", "", q.force, "set it down, too: writers that were too late are admitted again")
	q.register(cmd.Flags(), "say only what has gone wrong")
	completeFlags(cmd)
	return cmd
}

// highest is the largest token; zero: the resource has seen none.
func (q *fenceQuery) highest(ctx context.Context) (backends.Token, error) {
	token, err := ask(ctx, q.query, registered(func(ctx context.Context, r backends.Register) (backends.Token, error) {
		return r.Highest(ctx, q.resource)
	}))
	if isNotThere(err) {
		return 0, nil
	}
	return token, err
}

// highestView is what programs are shown.
type highestView struct {
	Resource string          `json:"resource"`
	Token    *backends.Token `json:"token"` // null: none
	Backend  string          `json:"backend"`
}

// show exits with 1 where there is nothing to show.
func (q *fenceQuery) show(cmd *cobra.Command, args []string) error {
	if err := q.prepare(cmd, args); err != nil {
		return err
	}
	token, err := q.highest(cmd.Context())
	if err != nil {
		return err
	}
	var b bytes.Buffer
	switch {
	case q.json.of:
		if err := writeLine(&b, highestView{q.resource, tokenView(token), q.address()}); err != nil {
			return err
		}
	case token == 0:
		q.print.say(slog.LevelInfo, fmt.Sprintf("no token has been admitted for %q in %s", q.resource, q.place()), q.attrs()...)
	default:
		fmt.Fprintln(&b, token)
	}
	if _, err := q.Stdout.Write(b.Bytes()); err != nil || token != 0 {
		return err
	}
	return nothingThere
}

func (q *fenceQuery) reset(cmd *cobra.Command, args []string) error {
	if !q.token.given() {
		return usage("--to N: the largest token from now on", "no --to is given")
	}
	if err := q.prepare(cmd, args); err != nil {
		return err
	}
	to := q.token.of
	was, err := q.highest(cmd.Context())
	if err != nil {
		return err
	}
	_, err = ask(cmd.Context(), q.query, registered(func(ctx context.Context, r backends.Register) (struct{}, error) {
		return struct{}{}, r.Reset(ctx, q.resource, to, q.force.of)
	}))
	var stale *backends.StaleError
	switch {
	case errors.As(err, &stale):
		return staleFailure(stale, "--force sets it down all the same: writers that were too late are admitted again")
	case err != nil:
		return err
	}
	q.nameDefault()
	q.print.say(slog.LevelInfo, q.resetText(was, to), q.attrs(slog.Int64("was", int64(was)), slog.Int64("token", int64(to)))...)
	return nil
}

// resetText says what the highest token was, zero for none, and is.
func (q *fenceQuery) resetText(was, to backends.Token) string {
	text := fmt.Sprintf("the largest token of %q is %d", q.resource, to)
	switch was {
	case 0:
		return text + " now; none had been admitted"
	case to:
		return text + ", as it was"
	}
	return fmt.Sprintf("%s now; it was %d", text, was)
}
