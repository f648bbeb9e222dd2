package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"flockd/backends"
	"flockd/runner"
)

func (a *app) newFenceAdmit() *cobra.Command {
	q := a.newFenceQuery(false)
	cmd := &cobra.Command{
		Use:   "admit RESOURCE [flags]",
		Short: "Record a token, unless a larger one came before",
		Long: "Record the token of whoever is about to write to RESOURCE as the largest that it\n" +
			"has seen, unless it has seen a larger one: then the writer comes too late. An equal\n" +
			"token is admitted. RESOURCE is any name, made like a key; the store, which has to\n" +
			"be named, remembers it for ever.",
		Example:           strings.Trim(fenceAdmitExamples, "\n"),
		Args:              arguments(1, "RESOURCE"),
		RunE:              q.admit,
		ValidArgsFunction: noWords,
	}
	addToken(cmd.Flags(), q.token)
	q.register(cmd.Flags(), "say only what has gone wrong")
	completeFlags(cmd)
	return cmd
}

const fenceAdmitExamples = `
# in a script that flockd run runs: whoever comes too late doesn't write
flockd fence admit reports/web && ./upload.sh report.html
`

// errUnnamed says that no store is named, where the default one would be the wrong one.
var errUnnamed = errors.New("no store is named")

func (q *fenceQuery) admit(cmd *cobra.Command, args []string) error {
	token, err := tokenOf(q.token, q.Streams)
	if err != nil {
		return err
	}
	if err := q.named(cmd, args); err != nil {
		return err
	}
	if q.settings.backend.from == fromDefault {
		return &failure{runner.Unavailable, errUnnamed, "--backend URL or FLOCKD_BACKEND names the store whose register is asked; " + handOn}
	}
	q.begin()
	err = q.admitted(cmd.Context(), token)
	var stale *backends.StaleError
	switch {
	case errors.As(err, &stale):
		return staleFailure(stale, "")
	case errors.Is(err, errUnused):
		return &failure{runner.Unavailable, fmt.Errorf("%s: it is not the one that has granted token %d", q.neverUsed(), token),
			"flockd fence reset RESOURCE --to N begins a register in a store that no run uses"}
	}
	return err
}

// admitted asks a store that somebody has used, be it that its register is still to be made.
// Errors: ask's, a *backends.StaleError.
func (q *fenceQuery) admitted(ctx context.Context, token backends.Token) error {
	admit := registered(func(ctx context.Context, r backends.Register) (struct{}, error) {
		return struct{}{}, r.Admit(ctx, q.resource, token)
	})
	_, err := ask(ctx, q.query, admit)
	if !errors.Is(err, errUnused) {
		return err
	}
	if _, err := ask(ctx, q.query, func(ctx context.Context, b backends.Backend) (backends.Status, error) {
		return b.Inspect(ctx, q.resource)
	}); err != nil {
		return err
	}
	q.opener = q.open
	q.begin()
	_, err = ask(ctx, q.query, admit)
	return err
}
