package cmd

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"flockd/backends"
)

func (a *app) newFence() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fence",
		Short: "Refuse writers whose fencing token is too small",
		Long: "Refuse a writer whose fencing token is smaller than the largest that has been\n" +
			"seen: one that was frozen or cut off, and comes back after its lease has ended.",
		Args: cobra.ArbitraryArgs,

		SuggestionsMinimumDistance: 2,
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error { return noCommand(cmd, args) }
	admit, file := a.newFenceAdmit(), a.newFenceFile()
	a.hintAtSlots(admit)
	a.hintAtSlots(file)
	cmd.AddCommand(admit, a.newFenceShow(), a.newFenceReset(), file)
	return cmd
}

// hintAtSlots has a command that refuses a stale token name the mistake that makes the tokens
// of living slots stale: they share what is fenced, whose name then lacks the slot's number.
func (a *app) hintAtSlots(cmd *cobra.Command) {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		var stale *backends.StaleError
		var f *failure
		slot := a.getenv("FLOCKD_SLOT")
		if slot == "" || !errors.As(err, &stale) || !errors.As(err, &f) || strings.Contains(path.Base(stale.Resource), slot) {
			return err
		}
		return &failure{f.class, f.err, "with --slots each slot needs one of its own, with $FLOCKD_SLOT in its name"}
	}
}

// fenceQuery asks a store's register.
type fenceQuery struct {
	*query
	resource string
	token    *value[backends.Token] // or --to
	force    *value[bool]
}

// newFenceQuery makes the store where it isn't there yet only with makes.
func (a *app) newFenceQuery(makes bool) *fenceQuery {
	q := &fenceQuery{query: a.newQuery(), token: newToken(), force: newSwitch()}
	if makes {
		q.opener = a.open
	}
	return q
}

// prepare is named, and begins to open the store.
func (q *fenceQuery) prepare(cmd *cobra.Command, args []string) error {
	if err := q.named(cmd, args); err != nil {
		return err
	}
	q.begin()
	return nil
}

// named checks RESOURCE and finds out which store is meant.
func (q *fenceQuery) named(cmd *cobra.Command, args []string) error {
	if err := backends.CheckResource(args[0]); err != nil {
		return usage("", "%w", err)
	}
	q.resource = args[0]
	if err := q.checkFlags(cmd); err != nil {
		return err
	}
	return q.resolve("")
}

// attrs are of each record in JSON.
func (q *fenceQuery) attrs(more ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{slog.String("resource", q.resource), slog.String("backend", q.address())}, more...)
}

// nameDefault says what a register in the default store is worth.
func (q *fenceQuery) nameDefault() {
	if q.settings.backend.from == fromDefault {
		q.print.say(slog.LevelInfo, defaultText("register", userName(q.UID), q.address()))
	}
}

// staleFailure names both tokens.
func staleFailure(e *backends.StaleError, hint string) error {
	return &failure{classStale, &staleError{e}, hint}
}

type staleError struct{ *backends.StaleError }

func (e *staleError) Error() string {
	return fmt.Sprintf("stale: token %d for %s, which has seen %d", e.Token, e.Resource, e.Highest)
}

func (e *staleError) Unwrap() error { return e.StaleError }
