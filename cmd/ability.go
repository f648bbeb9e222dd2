package cmd

import (
	"context"
	"errors"

	"flockd/backends"
)

// What not every store does, in the words of a message about one.
var (
	errNoLedger   = errors.New("keeps no record of runs")
	errNoRegister = errors.New("has no register of fencing tokens")
)

// able is do for a store that implements A, else the error lacks.
func able[A, T any](lacks error, do func(context.Context, A) (T, error)) func(context.Context, backends.Backend) (T, error) {
	return func(ctx context.Context, b backends.Backend) (T, error) {
		if a, ok := backends.As[A](b); ok {
			return do(ctx, a)
		}
		var none T
		return none, lacks
	}
}

// ledgered is do for a store that has a ledger.
func ledgered[T any](do func(context.Context, backends.Ledger) (T, error)) func(context.Context, backends.Backend) (T, error) {
	return able(errNoLedger, do)
}

// registered is do for a store that has a register.
func registered[T any](do func(context.Context, backends.Register) (T, error)) func(context.Context, backends.Backend) (T, error) {
	return able(errNoRegister, do)
}
