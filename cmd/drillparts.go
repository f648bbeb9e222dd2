package cmd

import (
	"encoding/json"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"

	"flockd/backends"
	"flockd/drill"
	"flockd/runner"
)

// contend is a contender of a drill: see drill.Contend. It campaigns in what wrap makes of the
// store.
func contend(streams Streams, wrap func(backends.Backend) backends.Backend) int {
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // it would hold the store's secrets
	return drill.Contend(streams.Stdin, streams.Stdout, func(p drill.Part) (o runner.Options, end func(), err error) {
		u, err := backends.ParseURL(p.Store)
		if err != nil {
			return o, nil, err
		}
		store, err := openStore(u, nil)
		if err != nil {
			return o, nil, err
		}
		o.Backend = wrap(store)
		o.Request.Owner = owner(streams, drill.ContenderName, "flockd drill, contender "+p.Name)
		o.Legacy = func(lease backends.Lease) []byte { return contenderLegacy(store, u, streams, lease) }
		l := newLines(streams.Stderr)
		if p.Verbose {
			log := newPrinter(l, false, false, true)
			log.secrets = secretsOf(u)
			o.Log = log.log.With(slog.String("contender", p.Name))
		}
		return o, func() { l.flush(); store.Close() }, nil
	})
}

func asItIs(store backends.Backend) backends.Backend { return store }

// contenderLegacy is what the guard does for a contender that was killed.
func contenderLegacy(store backends.Backend, u *backends.URL, streams Streams, lease backends.Lease) []byte {
	text, _ := json.Marshal(legacy{
		Record: record{Key: lease.Key, ID: lease.ID, Token: lease.Token, PID: os.Getpid()},
		Store:  absolute(store, u).Full(), Env: authorities(streams),
	})
	return text
}

// throwAway is the command of a contender: see drill.Command.
func throwAway(streams Streams) int {
	if len(streams.Args) != 1 {
		return exitCode(runner.Result{Class: classUsage}, nil)
	}
	return drill.Command(streams.Args[0], streams.getenv, streams.Stdout)
}
