package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"flockd/backends"
	"flockd/runner"
)

const (
	queryPatience = 5 * time.Second // as long as a run that doesn't wait
	queryAtMost   = 2 * time.Second // one question
	queryPauseMin = 50 * time.Millisecond
	queryPauseMax = time.Second
)

// query is a command that looks at a store or tells it something. It stands in no
// line, and doesn't make the store.
type query struct {
	*app
	settings *settings
	quiet    *value[bool] // not the setting, which is about runs
	json     *value[bool]

	url    *backends.URL
	store  *opening
	unused *backends.UnusedError // nil: somebody has used the store, or it doesn't say
}

func (a *app) newQuery() *query {
	return &query{app: a, settings: newSettings(), quiet: newSwitch(), json: newSwitch()}
}

// register adds the flags that all of them have.
func (q *query) register(set *pflag.FlagSet, quiet string) {
	addFlag(set, groupLock, "backend", "b", q.settings.backend, "where the lock lives").
		Annotations[byDefault] = []string{"$FLOCKD_BACKEND, else the configuration, else sqlite:"}
	addSwitch(set, groupOutput, "quiet", "q", q.quiet, quiet)
	addFlag(set, groupOutput, "log-format", "", q.settings.logFormat, "how flockd's own lines on stderr look")
	addFlag(set, groupOther, "config", "", q.settings.config, "read this configuration alone").
		Annotations[byDefault] = []string{"$FLOCKD_CONFIG, else see flockd.conf(5)"}
}

func (q *query) registerJSON(set *pflag.FlagSet, usage string) {
	addSwitch(set, groupOutput, "json", "", q.json, usage)
}

// prepare finds out which store is meant, and begins to open it. An empty key is none.
func (q *query) prepare(cmd *cobra.Command, key string) error {
	q.print = newPrinter(q.lines, q.settings.logFormat.of == "json", false, false)
	if err := checkValues(cmd.Flags(), q.Args); err != nil {
		return err
	}
	q.settings.key.of = key
	if err := q.settings.resolve(q.Streams); err != nil {
		return err
	}
	text := q.settings.backend.of
	if q.settings.backend.from == fromDefault {
		text = defaultBackend
	}
	u, err := backends.ParseURL(text)
	if err != nil {
		return badBackend("--backend", err)
	}
	q.print = newPrinter(q.lines, q.settings.logFormat.of == "json", q.quiet.of, false)
	q.print.secrets = secretsOf(u)
	q.url = u
	q.store = newOpening(func() (backends.Backend, error) { return q.find(context.Background(), u) })
	return nil
}

// keyArgument is the KEY among the arguments.
func keyArgument(args []string) (string, error) {
	if err := backends.CheckKey(args[0]); err != nil {
		return "", usage("", "%w", err)
	}
	return args[0], nil
}

// arguments refuses other than the named ones, of which the first least must be there.
func arguments(least int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		see := "see " + cmd.CommandPath() + " --help"
		switch {
		case len(args) < least:
			return usage(see, "no %s is given", names[len(args)])
		case len(args) > len(names):
			return usage(see, "one argument too many: %s", shortened(args[len(names)]))
		}
		return nil
	}
}

// errUnused says that nobody has used the store yet: no run has made it.
var errUnused = errors.New("the store has not been used")

// ask asks the store, again while it gives no answer. Errors: errUnused,
// backends.ErrNotFound of do, and failures of the user's or the store's.
func ask[T any](ctx context.Context, q *query, do func(context.Context, backends.Backend) (T, error)) (T, error) {
	limit := time.NewTimer(queryPatience)
	defer limit.Stop()
	for pause := queryPauseMin; ; pause = min(2*pause, queryPauseMax) {
		answer, err := askOnce(ctx, q, do)
		if err == nil || isFinal(err) {
			return answer, q.explained(err)
		}
		select {
		case <-limit.C:
			return answer, q.explained(err)
		case <-ctx.Done():
			return answer, q.explained(err)
		case <-time.After(pause):
		}
	}
}

// change is ask for what changes something. again says that an attempt before had no
// answer: backends.ErrNotFound may be its doing.
func change(ctx context.Context, q *query, do func(context.Context, backends.Backend) (struct{}, error)) (again bool, err error) {
	var attempts atomic.Int32
	_, err = ask(ctx, q, func(ctx context.Context, b backends.Backend) (struct{}, error) {
		attempts.Add(1)
		return do(ctx, b)
	})
	return attempts.Load() > 1, err
}

// askOnce doesn't wait for a store that hangs.
func askOnce[T any](ctx context.Context, q *query, do func(context.Context, backends.Backend) (T, error)) (answer T, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryAtMost)
	defer cancel()
	b, err := q.opened(ctx)
	if err != nil {
		return answer, err
	}
	type result struct {
		answer T
		err    error
	}
	done := make(chan result, 1)
	go func() {
		answer, err := do(ctx, b)
		done <- result{answer, err}
	}()
	select {
	case r := <-done:
		return r.answer, q.answered(r.err)
	case <-ctx.Done():
		return answer, fmt.Errorf("no answer within %v", queryAtMost)
	}
}

func (q *query) opened(ctx context.Context) (backends.Backend, error) {
	b, err := q.store.open(ctx)
	q.unused = nil
	errors.As(err, &q.unused)
	if errors.Is(err, backends.ErrNotFound) {
		return nil, errUnused
	}
	return b, err
}

// answered is the err of a request. Some stores see only then that nobody has used them.
func (q *query) answered(err error) error {
	if errors.As(err, &q.unused) {
		return errUnused
	}
	return err
}

// isFinal reports whether it is of no use to ask again.
func isFinal(err error) bool {
	for _, final := range []error{errUnused, backends.ErrNotFound, backends.ErrRefused, errNoLedger} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// explained is err for the user.
func (q *query) explained(err error) error {
	var bad *backends.URLError
	switch {
	case err == nil, isNotThere(err):
		return err
	case errors.Is(err, errNoLedger):
		return &failure{runner.Unavailable, fmt.Errorf("the store %s keeps no record of runs", q.url), ""}
	case errors.As(err, &bad):
		return badBackend(backendNamed(q.settings.backend.from), bad)
	}
	return &failure{runner.Unavailable, fmt.Errorf("the store %s is unavailable: %w", q.url, err), ""}
}

// isNotThere reports whether err says that there is no such thing, be it that no run has
// made the store yet.
func isNotThere(err error) bool {
	return errors.Is(err, errUnused) || errors.Is(err, backends.ErrNotFound)
}

// The exit code of break and of once forget where there is nothing to do it to.
const nothingThere exited = 1

// nothing says that there is nothing to do it to.
func (q *query) nothing(key, text string) error {
	q.print.say(slog.LevelInfo, text, slog.String("key", key), slog.String("backend", q.address()))
	return nothingThere
}

// inspect is the key's status. One of a store that isn't used is empty.
func (q *query) inspect(ctx context.Context, key string) (backends.Status, error) {
	status, err := ask(ctx, q, func(ctx context.Context, b backends.Backend) (backends.Status, error) {
		return b.Inspect(ctx, key)
	})
	if errors.Is(err, errUnused) {
		return backends.Status{Key: key, AsOf: time.Now()}, nil
	}
	return status, err
}

// each calls do for the keys that begin with prefix, as they come, until it fails. Nothing
// is asked again once the first has come.
func (q *query) each(ctx context.Context, prefix string, do func(backends.Status) error) error {
	began, pause := time.Now(), queryPauseMin
	for {
		came, stopped, err := q.list(ctx, prefix, do)
		switch {
		case stopped, err == nil:
			return err
		case errors.Is(err, errUnused):
			return nil
		case came || isFinal(err) || ctx.Err() != nil || time.Since(began) > queryPatience:
			return q.explained(err)
		}
		time.Sleep(pause)
		pause = min(2*pause, queryPauseMax)
	}
}

// list is one try of each: whether a key came, and whether err is do's.
func (q *query) list(ctx context.Context, prefix string, do func(backends.Status) error) (came, stopped bool, err error) {
	opening, cancel := context.WithTimeout(ctx, queryAtMost)
	defer cancel()
	b, err := q.opened(opening)
	if err != nil {
		return false, false, err
	}
	for status, err := range b.List(ctx, prefix) {
		if err != nil {
			return came, false, q.answered(err)
		}
		came = true
		if err := do(status); err != nil {
			return came, true, err
		}
	}
	return came, false, nil
}

// from is where the store was named: a flag, a variable, FILE:LINE or the default.
func (q *query) from() string {
	if from := q.settings.backend.from; from != fromFlag {
		return from
	}
	return "--backend"
}

// address is the store's, without secrets.
func (q *query) address() string {
	if q.unused != nil {
		return q.unused.Address
	}
	return address(q.store, q.url)
}

// place is the address, and for people that there is nothing yet.
func (q *query) place(more ...string) string {
	if q.unused != nil {
		more = append(more, q.unused.Why)
	}
	if len(more) == 0 {
		return q.address()
	}
	return q.address() + " (" + strings.Join(more, "; ") + ")"
}
