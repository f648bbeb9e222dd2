package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flockd/backends"
)

func (a *app) newOnce() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "once",
		Short: "Show and forget the runs that --once doesn't repeat",
		Long: "Show the runs of a key that have succeeded and are recorded, so that flockd run\n" +
			"--once and --once-per don't repeat them, and forget one, so that it may run again.",
		Args: cobra.ArbitraryArgs,

		SuggestionsMinimumDistance: 2,
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error { return noCommand(cmd, args) }
	cmd.AddCommand(a.newOnceList(), a.newOnceForget())
	return cmd
}

func (a *app) newOnceList() *cobra.Command {
	q := a.newQuery()
	cmd := &cobra.Command{
		Use:   "list KEY [flags]",
		Short: "List the recorded runs of a key",
		Long: "List the runs of KEY that have succeeded under --once or --once-per and are still\n" +
			"recorded, oldest first.",
		Args:              arguments(1, "KEY"),
		RunE:              q.listRuns,
		ValidArgsFunction: q.completeKey,
	}
	q.registerJSON(cmd.Flags(), "print a JSON object a line for each run")
	q.register(cmd.Flags(), "don't say that there is no such run")
	completeFlags(cmd)
	return cmd
}

func (a *app) newOnceForget() *cobra.Command {
	q := a.newQuery()
	cmd := &cobra.Command{
		Use:   "forget KEY RUN [flags]",
		Short: "Forget a recorded run, so that it may run again",
		Long: "Forget that RUN of KEY has succeeded. RUN is the ID that was given to --once, or\n" +
			"the period's as flockd once list shows it. The next flockd run that asks for it runs.",
		Args:              arguments(2, "KEY", "RUN"),
		RunE:              q.forgetRun,
		ValidArgsFunction: q.completeRun,
	}
	q.register(cmd.Flags(), "say only what has gone wrong")
	completeFlags(cmd)
	return cmd
}

// entryView is what programs are shown of a recorded run.
type entryView struct {
	Key     string          `json:"key"`
	Run     string          `json:"run"`
	At      *time.Time      `json:"at"`
	Forgets *time.Time      `json:"forgets"` // null: never
	Token   *backends.Token `json:"token"`
	Owner   ownerView       `json:"owner"`
}

func (q *query) entries(ctx context.Context, key string) ([]backends.Entry, error) {
	return ask(ctx, q, ledgered(func(ctx context.Context, l backends.Ledger) (all []backends.Entry, err error) {
		for entry, err := range l.Entries(ctx, key) {
			if err != nil {
				return nil, err
			}
			all = append(all, entry)
		}
		return all, nil
	}))
}

func (q *query) listRuns(cmd *cobra.Command, args []string) error {
	key, err := keyArgument(args)
	if err != nil {
		return err
	}
	if err := q.prepare(cmd, key); err != nil {
		return err
	}
	entries, err := q.entries(cmd.Context(), key)
	if err != nil && !errors.Is(err, errUnused) {
		return err
	}
	if len(entries) == 0 {
		q.print.say(slog.LevelInfo, "no run of "+key+" is recorded in "+q.place(), slog.String("key", key))
		return nil
	}
	text, err := q.runsText(key, entries)
	if err != nil {
		return err
	}
	_, err = q.Stdout.Write(text)
	return err
}

func (q *query) runsText(key string, entries []backends.Entry) ([]byte, error) {
	var b bytes.Buffer
	if q.json.of {
		for _, e := range entries {
			v := entryView{key, e.Run, timeView(e.At), timeView(e.Forgets), tokenView(e.Token), ownerViewOf(e.Owner)}
			if err := writeLine(&b, v); err != nil {
				return nil, err
			}
		}
		return b.Bytes(), nil
	}
	t := newTable(&b, 28, 25, 25, 40)
	t.row("RUN", "SUCCEEDED", "KEPT UNTIL", "BY")
	for _, e := range entries {
		kept := "for ever"
		if !e.Forgets.IsZero() {
			kept = e.Forgets.Local().Format(stamp)
		}
		t.row(clean(e.Run), e.At.Local().Format(stamp), kept, clean(namedOwner(e.Owner)))
	}
	err := t.flush()
	return b.Bytes(), err
}

func (q *query) forgetRun(cmd *cobra.Command, args []string) error {
	key, err := keyArgument(args)
	if err != nil {
		return err
	}
	run := args[1]
	if err := backends.CheckRun(run); err != nil {
		return usage("", "%w", err)
	}
	if err := q.prepare(cmd, key); err != nil {
		return err
	}
	again, err := change(cmd.Context(), q, ledgered(func(ctx context.Context, l backends.Ledger) (struct{}, error) {
		return struct{}{}, l.Forget(ctx, key, run)
	}))
	switch {
	case again && errors.Is(err, backends.ErrNotFound): // by the attempt before
	case isNotThere(err):
		return q.nothing(key, fmt.Sprintf("no run %q of %s is recorded in %s; flockd once list shows those that are", run, key, q.place()))
	case err != nil:
		return err
	}
	q.print.say(slog.LevelInfo, fmt.Sprintf("forgot run %q of %s: it may run again", run, key), slog.String("key", key), slog.String("run", run))
	return nil
}

// completeRun completes KEY, then RUN.
func (q *query) completeRun(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return q.completeKey(cmd, args, begun)
	}
	return q.complete(cmd, args[0], func(ctx context.Context, b backends.Backend, add func(string) bool) {
		ledger, ok := backends.As[backends.Ledger](b)
		if !ok {
			return
		}
		for entry, err := range ledger.Entries(ctx, args[0]) {
			if err != nil || strings.HasPrefix(entry.Run, begun) && !add(entry.Run) {
				return
			}
		}
	}), noFiles
}
