package cmd

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"flockd/backends"
	"flockd/runner"
	"flockd/runner/signals"
)

// runOptions is a run as the user wants it.
type runOptions struct {
	key     string
	backend *backends.URL
	from    string // where backend was named: see value

	inherited string // FLOCKD_BACKEND, if it is the backend

	mode       backends.Mode
	slots      int // with Slots
	minHold    time.Duration
	once       *backends.Once
	maxWaiters int // see runner.Options
	supersede  bool

	ttl           time.Duration
	wait          time.Duration
	onLost        runner.OnLost
	warnSignal    syscall.Signal
	grace         time.Duration
	maxRuntime    time.Duration
	leftovers     runner.Leftovers
	onUnavailable runner.OnUnavailable

	argv       []string
	chain      []string // the enclosing holds
	note       string
	exits      map[runner.Class]int
	resultFile string

	quiet, verbose, json bool
}

func (a *app) newRun() *cobra.Command {
	s := newSettings()
	cmd := &cobra.Command{
		Use:   "run --key KEY [flags] -- COMMAND [ARG...]",
		Short: "Run a command under the lock on a key",
		Long: "Run COMMAND under the lock on KEY, which at most one command holds at a time, or\n" +
			"with --shared or --slots several of a kind, in the order in which they asked.\n" +
			"The lease on the key is renewed while COMMAND runs. When it can't be proven any\n" +
			"more, COMMAND is stopped before anybody else can be granted the key.\n\n" +
			"A duration is 90s, 1h30m or 1d12h; a bare number is seconds. Flags end at the\n" +
			"first argument that is not a flag, or at --.",
		Example: strings.Trim(runExamples, "\n"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := s.read(cmd.Flags(), a.Streams, args)
			if err != nil {
				a.print = newPrinter(a.lines, s.logFormat.of == "json", false, false)
				a.leaveNoDoubt(s.resultFile.of, s.key.of, err)
				return err
			}
			return a.run(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeCommand,
	}
	s.register(cmd.Flags())
	cmd.Flags().SetInterspersed(false)
	completeFlags(cmd)
	return cmd
}

const runExamples = `
# cron, whose PATH is short: whoever comes second skips the report
0 1 * * *  /usr/local/bin/flockd run -q -k nightly-report -E 0 -- /usr/local/bin/report.sh

# deploy: stand in line for ten minutes, and stop a deployment after an hour
flockd run -k deploy/web -w 10m --max-runtime 1h -- ./deploy.sh production

# each night one success, on the first of three hosts on which it doesn't fail
0 1 * * *  /usr/local/bin/flockd run -q -k nightly-report --once-per day --tz Europe/Berlin -w 2h -- /usr/local/bin/report.sh

# a queue of previews of which only the newest matters; four builds at a time
flockd run -k preview/web -w 1h --supersede -- ./preview.sh
flockd run -k builds --slots 4 -w 1h -- sh -c './build.sh --port 900$FLOCKD_SLOT'

# CI: whoever is kept waiting sees which run it is
FLOCKD_BACKEND=$LOCK_URL flockd run -k terraform/prod -w 30m --note "$CI_JOB_URL" -- terraform apply
`

// runLocked runs the command under the lock and reports how it came out.
func (a *app) runLocked(ctx context.Context, o *runOptions) error {
	r := a.begin(o)
	r.id = backends.NewID()
	file, err := openResultFile(o.resultFile, r.record(r.id))
	if err != nil {
		return err
	}
	r.file = file
	res := r.do(ctx)
	r.onEnd(res) // where it didn't get as far as the runner
	r.report(res)
	return &ended{res, o.exits}
}

// begin makes this process one that runs a command: its descriptors are the command's, and
// from here on no signal ends it.
func (a *app) begin(o *runOptions) *lockedRun {
	r := &lockedRun{app: a, runOptions: o}
	if a.Process {
		r.descriptors = inheritedDescriptors()
		signals.OutlivePipes()
	}
	a.print = newPrinter(a.lines, o.json, o.quiet, o.verbose)
	a.print.secrets = secretsOf(o.backend)
	r.who = owner(a.Streams, o.argv[0], o.note)
	r.signals = a.takeSignals() // from here on there is something to lose, the result file first
	return r
}

// lockedRun is one run.
type lockedRun struct {
	*app
	*runOptions
	id          string
	who         backends.Owner
	descriptors []int // for the command, beside its streams
	signals     chan os.Signal
	file        *resultFile
	began       time.Time
	waiting     *waiting // nil: it never was
}

// record is what is known of a run before it asks.
func (r *lockedRun) record(id string) record {
	return record{
		Key: r.key, ID: id, Backend: r.backend.String(), Host: r.who.Host, User: r.who.User,
		PID: r.who.PID, Command: r.who.Command, Note: r.who.Note, Mode: r.mode, Slots: r.slots, Asked: time.Now(),
	}
}

func (r *lockedRun) do(ctx context.Context) runner.Result {
	store, path, err := r.open(slog.LevelInfo, "lock")
	if err != nil {
		return resultOf(err)
	}
	defer store.Close()
	o := r.options(store, path)
	o.Spent = time.Since(r.began)
	return runner.Run(ctx, o)
}

// open finds the command, and then the store for what is named. Level is that of a word about the
// default store.
func (r *lockedRun) open(level slog.Level, what string) (store backends.Backend, path string, err error) {
	if path, err = lookUp(r.argv[0], r.Streams); err != nil {
		return nil, "", err
	}
	r.began = time.Now()
	if store, err = openStore(r.backend, r.signals); err != nil {
		return nil, "", badBackend(backendNamed(r.from), err)
	}
	r.nameDefault(level, what, store)
	if err = r.checkGrace(store.Traits()); err != nil {
		store.Close()
		return nil, "", err
	}
	return store, path, nil
}

// takeSignals are the signals that come to this process; nil: it isn't all ours.
func (a *app) takeSignals() chan os.Signal {
	if !a.Process {
		return nil
	}
	return signals.Take()
}

// nameDefault says what a lock, or what it is for, is worth in the default store.
func (r *lockedRun) nameDefault(level slog.Level, what string, store backends.Backend) {
	if r.from != fromDefault {
		return
	}
	r.say(level, defaultText(what, r.who.User, address(store, r.backend)))
}

// defaultText says what a lock or register is worth in the default store, which may be
// open, at an address, by now.
func defaultText(what, user, at string) string {
	where := ""
	if at != defaultBackend {
		where = ", in " + at
	}
	return "no store is named: this " + what + " holds only for user " + user +
		" on this host" + where + "; --backend URL or FLOCKD_BACKEND names another store"
}

// nameCaveat says why a lock in this very store is worth less than others of its kind.
func (r *lockedRun) nameCaveat(store backends.Backend) {
	if s, ok := backends.As[backends.Cautioner](store); ok && s.Caveat() != "" {
		r.say(slog.LevelWarn, s.Caveat())
	}
}

// options are the runner's.
func (r *lockedRun) options(store backends.Backend, path string) runner.Options {
	return runner.Options{
		Backend: store,
		Request: backends.Request{
			Key: r.key, ID: r.id, Owner: r.who, Mode: r.mode, Slots: r.slots, TTL: r.ttl, MinHold: r.minHold, Once: r.once,
		},
		Wait:          r.wait,
		MaxWaiters:    r.maxWaiters,
		Supersede:     r.supersede,
		Chain:         r.chain,
		Command:       r.command(path, store),
		Grace:         r.grace,
		MaxRuntime:    r.maxRuntime,
		OnLost:        r.onLost,
		WarnSignal:    r.warnSignal,
		Leftovers:     r.leftovers,
		OnUnavailable: r.onUnavailable,
		Signals:       r.signals,
		Log:           r.print.log,
		OnWait:        r.onWait,
		OnWaited:      r.onWaited,
		OnGrant: func(lease backends.Lease) error {
			r.lines.hide()
			r.nameCaveat(store)
			return r.onGrant(lease)
		},
		OnStart:  r.onStart,
		OnUnkept: r.onUnkept,
		OnLeft:   r.onLeft,
		OnEnd:    r.onEnd,
		Clean:    r.print.clean,
		Legacy:   func(lease backends.Lease) []byte { return r.legacy(store, lease) },
	}
}

func (r *lockedRun) command(path string, store backends.Backend) runner.Command {
	named := func() string {
		if r.inherited != "" {
			return r.inherited
		}
		return address(store, r.backend)
	}
	return runner.Command{
		Path: path, Args: r.argv, Env: r.Env, Backend: named,
		Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr, Inherit: r.descriptors,
	}
}
