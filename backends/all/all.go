// Package all knows every driver that this build has, by URL scheme. Each
// driver has a file here and a build tag that leaves it out: -tags no_sqlite.
package all

import (
	"context"
	"maps"
	"slices"
	"strings"

	"flockd/backends"
)

// An opener connects to the store at u. It may put off the first request to it.
type opener func(ctx context.Context, u *backends.URL) (backends.Backend, error)

// A schema is the statements that make what flockd needs in a database, and that let a user
// work with it, "flockd" where user is empty. To run them again changes nothing.
type schema func(prefix, user string) (string, error)

var (
	openers = map[string]opener{} // by scheme, filled in by the drivers' files
	finders = map[string]opener{} // likewise, of the stores that opening would make
	schemas = map[string]schema{} // by database
	missing = map[string]bool{}   // schemes that this build was made without
)

// Open connects to the store at u. A *backends.URLError says that no driver of
// this build serves it, or that the driver can't read it.
func Open(ctx context.Context, u *backends.URL) (backends.Backend, error) {
	open := openers[u.Scheme]
	switch {
	case open != nil:
		return open(ctx, u)
	case missing[u.Scheme]:
		return nil, backends.BadURL("this build has no %s", u.Scheme)
	}
	return nil, backends.BadURL("no backend is called %q: this build has %s", u.Scheme, strings.Join(Schemes(), ", "))
}

// Find connects to the store at u as Open does, but makes none: a *backends.UnusedError
// says that nobody has used it yet. Who may only read the store can use Inspect, List and
// Ledger.Entries.
func Find(ctx context.Context, u *backends.URL) (backends.Backend, error) {
	if find := finders[u.Scheme]; find != nil {
		return find(ctx, u)
	}
	return Open(ctx, u)
}

// Schema is what the administrator of a database has to run for those who may not make
// tables: see Databases. A *backends.URLError says what is wrong with the names.
func Schema(database, prefix, user string) (string, error) {
	schema := schemas[database]
	switch {
	case schema != nil:
		return schema(prefix, user)
	case missing[database]:
		return "", backends.BadURL("this build has no %s", database)
	}
	return "", backends.BadURL("%q needs no tables, or is no backend: this build knows those of %s", database, strings.Join(Databases(), ", "))
}

// Databases lists what has a schema.
func Databases() []string { return slices.Sorted(maps.Keys(schemas)) }

// Schemes lists what this build has.
func Schemes() []string { return slices.Sorted(maps.Keys(openers)) }
