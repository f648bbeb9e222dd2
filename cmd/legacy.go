package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"flockd/backends"
	"flockd/backends/all"
)

// legacy is what is left to do for a run once flockd was killed: see runner.Options.
// It holds the store's secrets, and goes through pipes alone.
type legacy struct {
	Record   record
	Path     []byte            // of the result file; empty: none
	Appended bool              // to the result file
	Store    string            // its URL in full; empty: the command ran unlocked
	Env      map[string]string // what it takes to reach the store
}

// legacy of a run under lease, or of an unlocked one; nil: there is nothing to do.
func (r *lockedRun) legacy(store backends.Backend, lease backends.Lease) []byte {
	r.file.start(lease)
	l := legacy{Record: r.file.record, Path: []byte(r.file.path), Appended: r.file.appended != nil}
	switch {
	case !l.Record.Unlocked:
		l.Store, l.Env = absolute(store, r.backend).Full(), authorities(r.Streams)
	case len(l.Path) == 0:
		return nil
	}
	text, _ := json.Marshal(l)
	return text
}

// authorityVariables name what TLS trusts instead of the system's authorities. They
// are all that the stores' clients read from the environment.
var authorityVariables = []string{"SSL_CERT_FILE", "SSL_CERT_DIR"}

// authorities are the authorityVariables, in a form that holds in any folder.
func authorities(streams Streams) map[string]string {
	env := map[string]string{}
	for _, name := range authorityVariables {
		var paths []string
		for _, path := range filepath.SplitList(streams.getenv(name)) {
			if absolute, err := filepath.Abs(path); err == nil {
				path = absolute
			}
			paths = append(paths, path)
		}
		if len(paths) > 0 {
			env[name] = strings.Join(paths, string(filepath.ListSeparator))
		}
	}
	return env
}

// readLegacy refuses what legacy didn't write.
func readLegacy(from io.Reader) (*legacy, error) {
	const atMost = 1 << 20
	text, err := io.ReadAll(io.LimitReader(from, atMost))
	if err != nil {
		return nil, err
	}
	var l legacy
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, err
	}
	if l.Record.ID == "" || l.Record.PID == 0 || l.Store == "" != l.Record.Unlocked {
		return nil, errors.New("no legacy")
	}
	for name := range l.Env {
		if !slices.Contains(authorityVariables, name) {
			return nil, errors.New("no legacy")
		}
	}
	return &l, backends.CheckKey(l.Record.Key)
}

// open begins to open the store.
func (l *legacy) open() (storeOfHold, error) {
	for name, value := range l.Env {
		os.Setenv(name, value)
	}
	u, err := backends.ParseURL(l.Store)
	if err != nil {
		return storeOfHold{}, err
	}
	return storeOfHold{newOpening(func() (backends.Backend, error) { return all.Open(context.Background(), u) })}, nil
}

// storeOfHold has a hold of ours even where it isn't open yet.
type storeOfHold struct{ *opening }

func (s storeOfHold) Renew(ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
	b, err := s.open(ctx)
	if err != nil {
		return backends.Renewal{}, err
	}
	return b.Renew(ctx, lease)
}

func (s storeOfHold) Release(ctx context.Context, key, id string, outcome backends.Outcome) error {
	b, err := s.open(ctx)
	if err != nil {
		return err
	}
	return b.Release(ctx, key, id, outcome)
}
