package cmd

import (
	"strings"

	"flockd/backends"
)

// holdVariables are what a command needs of its hold, wherever it runs.
var holdVariables = []string{"FLOCKD_KEY", "FLOCKD_ID", tokenVariable, backendVariable}

// handOn is the hint where one of them is missing that a run sets in any case; noToken where it
// is one of those that a run without the lock doesn't set.
var (
	handOn = "sudo, ssh and docker drop what flockd run sets for its command: hand on " +
		strings.Join(holdVariables[:len(holdVariables)-1], ", ") + " and " + holdVariables[len(holdVariables)-1]
	noToken = handOn + ". A command that runs without the lock has no token"
)

// missing says which of the variables are not set, or empty, as where $NAME is handed on that
// isn't there; empty: none.
func (s Streams) missing(names ...string) string {
	var all []string
	unset, empty := 0, 0
	for _, name := range names {
		text, ok := s.variable(name)
		switch {
		case !ok:
			unset++
		case text == "":
			empty++
		default:
			continue
		}
		all = append(all, name)
	}
	verb, last := " is ", len(all)-1
	if last < 0 {
		return ""
	}
	list := all[last]
	if last > 0 {
		verb, list = " are ", strings.Join(all[:last], ", ")+" and "+list
	}
	switch {
	case empty == 0:
		return list + verb + "not set"
	case unset == 0:
		return list + verb + "empty"
	}
	return list + verb + "not set or empty"
}

// holdOf is the hold that the variables name: key, ID and token.
func holdOf(streams Streams) (hold backends.Lease, err error) {
	if text := streams.missing("FLOCKD_KEY", "FLOCKD_ID", tokenVariable); text != "" {
		return hold, usage(noToken, "which hold? %s", text)
	}
	hold.Key, hold.ID = streams.getenv("FLOCKD_KEY"), streams.getenv("FLOCKD_ID")
	if err := backends.CheckKey(hold.Key); err != nil {
		return hold, usage("", "FLOCKD_KEY: %w", err)
	}
	if !isID(hold.ID) {
		return hold, usage("", "FLOCKD_ID %s: an ID has 32 digits, 0 to 9 and a to f", shortened(hold.ID))
	}
	hold.Token, err = tokenOf(newToken(), streams)
	return hold, err
}

// isID reports whether text may be a hold's ID, as backends.NewID makes them.
func isID(text string) bool {
	return len(text) == len(backends.NewID()) && strings.Trim(text, "0123456789abcdef") == ""
}
