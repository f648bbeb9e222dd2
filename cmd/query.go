package cmd

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"flockd/backends"
)

// query is a command that looks at a store or tells it something. It stands in no
// line.
type query struct {
	*app
	opener   func(context.Context, *backends.URL) (backends.Backend, error) // find: it doesn't make the store
	settings *settings
	quiet    *value[bool] // not the setting, which is about runs
	json     *value[bool]

	url    *backends.URL
	store  *opening
	unused *backends.UnusedError // nil: somebody has used the store, or it doesn't say
}

func (a *app) newQuery() *query {
	return &query{app: a, opener: a.find, settings: newSettings(), quiet: newSwitch(), json: newSwitch()}
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

// registerKey adds --key, and what completes it: call it before completeFlags.
func (q *query) registerKey(cmd *cobra.Command, usage string) {
	addFlag(cmd.Flags(), groupLock, "key", "k", q.settings.key, usage)
	cmd.RegisterFlagCompletionFunc("key", q.completeKey)
}

func (q *query) registerJSON(set *pflag.FlagSet, usage string) {
	addSwitch(set, groupOutput, "json", "", q.json, usage)
}

// prepare finds out which store is meant, and begins to open it. An empty key is none.
func (q *query) prepare(cmd *cobra.Command, key string) error {
	if err := q.checkFlags(cmd); err != nil {
		return err
	}
	if err := q.resolve(key); err != nil {
		return err
	}
	q.begin()
	return nil
}

func (q *query) checkFlags(cmd *cobra.Command) error {
	q.print = newPrinter(q.lines, q.settings.logFormat.of == "json", false, false)
	return checkValues(cmd.Flags(), q.Args)
}

// resolve finds out which store is meant.
func (q *query) resolve(key string) error {
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
	return nil
}

// begin begins to open the store.
func (q *query) begin() {
	q.store = newOpening(func() (backends.Backend, error) { return q.opener(context.Background(), q.url) })
}

// keyArgument is the KEY among the arguments.
func keyArgument(args []string) (string, error) {
	if err := backends.CheckKey(args[0]); err != nil {
		return "", usage("", "%w", err)
	}
	return args[0], nil
}

// keyIsFlag refuses arguments: where a command is about a candidate, KEY is a flag as with flockd
// run.
func keyIsFlag(cmd *cobra.Command, args []string) error {
	hint := "see " + cmd.CommandPath() + " --help"
	if len(args) == 1 && !cmd.Flags().Changed("key") {
		hint = "--key " + shortened(args[0])
	}
	if len(args) > 0 {
		return usage(hint, "%s takes no argument, and here is %s", cmd.CommandPath(), shortened(args[0]))
	}
	return nil
}

// keyFlag is the value of --key.
func (q *query) keyFlag(cmd *cobra.Command) (string, error) {
	if !q.settings.key.given() {
		return "", usage(cmd.CommandPath()+" --key KEY", "no key is given: --key KEY")
	}
	return q.settings.key.of, nil
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

// The exit code of break, resign and of once forget where there is nothing to do it to.
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

// neverUsed says so of a store that was to be one in use.
func (q *query) neverUsed() string {
	return "nobody has used the store " + q.place() + " yet"
}
