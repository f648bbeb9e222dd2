package cmd

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"flockd/backends"
)

// targets are the claims to be asked: the holder, unless flags say otherwise.
func (q *breakQuery) targets(status backends.Status) ([]backends.Claim, error) {
	if q.id.given() {
		return q.byID(status)
	}
	var found []backends.Claim
	for _, c := range status.Line {
		if c.State == backends.Holding || c.State == backends.Cooling && q.force.of {
			found = append(found, c)
		}
	}
	switch {
	case len(found) == 0:
		return nil, q.nobody(status)
	case len(found) > 1 && !q.all.of:
		return nil, several(status.Key+" is held by", found, "--id ID for one of them, or --all")
	}
	return found, nil
}

func (q *breakQuery) byID(status backends.Status) ([]backends.Claim, error) {
	var found []backends.Claim
	for _, c := range status.Line {
		if strings.HasPrefix(c.ID, q.id.of) {
			found = append(found, c)
		}
	}
	switch {
	case len(found) == 0:
		return nil, q.nothing(status.Key, "nobody in the line of "+status.Key+" has an ID that begins with "+shortened(q.id.of))
	case len(found) > 1:
		return nil, several("--id "+q.id.of+" begins the IDs of", found, "more of the ID")
	case found[0].State == backends.Cooling && !q.force.of:
		return nil, q.nobody(status)
	}
	return found, nil
}

func several(what string, claims []backends.Claim, hint string) error {
	const most = 5
	var list []string
	for _, c := range claims[:min(len(claims), most)] {
		list = append(list, c.ID[:min(len(c.ID), shownID)]+" "+namedOwner(c.Owner))
	}
	if n := len(claims) - most; n > 0 {
		list = append(list, fmt.Sprintf("%d more", n))
	}
	return usage(hint, "%s %d: %s", what, len(claims), strings.Join(list, ", "))
}

// nobody says that nobody is there to be asked.
func (q *breakQuery) nobody(status backends.Status) error {
	_, waiters := split(status.Line)
	text := status.Key + " is free"
	switch {
	case stateOf(status) == stateCooling:
		text = status.Key + " is " + heldText(heldOf(status, status.Line), onlooker) + ": nobody is there to be asked, --force frees it now"
	case len(waiters) > 0:
		text = fmt.Sprintf("nobody holds %s; %d waiting, whose places --id gives up", status.Key, len(waiters))
	}
	return q.nothing(status.Key, text)
}

// heldOf is claims of a status as a run is told of them.
func heldOf(status backends.Status, claims []backends.Claim) *backends.HeldError {
	holders, _ := split(claims)
	_, waiters := split(status.Line)
	held := &backends.HeldError{Key: status.Key, AsOf: status.AsOf, Holders: holders, Waiters: len(waiters)}
	if len(waiters) > 0 {
		held.Next = &waiters[0]
	}
	return held
}

// confirm asks back, unless --yes is given.
func (q *breakQuery) confirm(status backends.Status, claims []backends.Claim) error {
	if q.yes.of {
		return nil
	}
	if !isTerminal(q.Stdin) || !isTerminal(q.Stderr) {
		return usage("--yes if that is meant", "%s, and nobody is at a terminal to confirm that it is to stop", claimText(status, claims[0]))
	}
	q.lines.flush()
	for _, c := range claims {
		fmt.Fprintf(q.Stderr, "flockd: %s\n", q.print.clean(claimText(status, c)))
	}
	fmt.Fprintf(q.Stderr, "flockd: %s [y/N] ", q.question(claims))
	answer, err := bufio.NewReader(q.Stdin).ReadString('\n')
	if err != nil {
		fmt.Fprintln(q.Stderr) // the terminal's own line hasn't ended: Ctrl-D
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return q.nothing(status.Key, "nothing was done")
}

func (q *breakQuery) question(claims []backends.Claim) string {
	holds := slices.ContainsFunc(claims, func(c backends.Claim) bool { return c.State == backends.Holding })
	switch {
	case !q.force.of:
		return "ask to stop?"
	case holds:
		return "free the key now? Until its holder hears of it two commands may run."
	case claims[0].State == backends.Waiting:
		return "take it out of the line?"
	}
	return "free the key now?"
}

// claimText says whose claim it is and since when.
func claimText(status backends.Status, c backends.Claim) string {
	if c.State == backends.Waiting {
		return "in line for " + status.Key + " is " + namedOwner(c.Owner) + inFull.since("", status.AsOf, c.Asked)
	}
	return status.Key + " is " + heldText(heldOf(status, []backends.Claim{c}), onlooker)
}

func isTerminal(f *os.File) bool {
	if f == nil {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}
