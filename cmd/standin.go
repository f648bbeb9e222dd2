package cmd

import (
	"bytes"
	"context"

	"flockd/backends"
	"flockd/runner"
)

// standIn renews a lease for a flockd that is stopped with its command. It says nothing, and
// returns 70 if it couldn't begin.
func standIn() (code int) {
	keepToItself()
	err := runner.StandIn(func(text []byte) (backends.Backend, error) {
		l, err := readLegacy(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		store, err := l.open()
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), openAtMost)
		defer cancel()
		store.open(ctx) // what else it can do is known once it is open; else each renewal tries
		return store, nil
	})
	if err != nil {
		return exitCode(runner.Result{Class: runner.Internal}, nil)
	}
	return 0
}
