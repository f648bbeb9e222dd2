package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"flockd/backends"
	"flockd/runner"
)

// The exit code of break and of once forget where there is nothing to do it to.
const nothingThere exited = 1

type breakQuery struct {
	*query
	id     *value[string]
	reason *value[string]
	wait   *value[time.Duration]
	all    *value[bool]
	force  *value[bool]
	yes    *value[bool]
}

func (a *app) newBreak() *cobra.Command {
	q := &breakQuery{
		query: a.newQuery(), id: newValue("ID", "", parseText), reason: newValue("TEXT", "", parseReason),
		wait: newValue("DUR", "0", atLeast(0)), all: newSwitch(), force: newSwitch(), yes: newSwitch(),
	}
	cmd := &cobra.Command{
		Use:   "break KEY --reason TEXT [flags]",
		Short: "Ask whoever holds a key to stop",
		Long: "Ask whoever holds KEY to stop. It stops its command as after a loss of the lease,\n" +
			"gives the key back, and exits with 79 and your reason. It is told with its next\n" +
			"renewal, within 30 seconds, or at once where the store can. With --id a place in\n" +
			"line is given up likewise.\n\n" +
			"With --force the key is free now, whether the holder hears of it or not: until\n" +
			"it does, two commands may run.",
		Example: strings.Trim(breakExamples, "\n"),
		Args:    arguments(1, "KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return q.run(cmd, args)
		},
		ValidArgsFunction: q.completeKey,
	}
	set := cmd.Flags()
	addFlag(set, groupLock, "reason", "", q.reason, "why; shown to whoever is asked, and recorded with the run. Needed")
	addFlag(set, groupLock, "id", "", q.id, "ask this holder or waiter; as much of its ID as tells it from others will do")
	addSwitch(set, groupLock, "all", "", q.all, "ask all holders, where there are several")
	addSwitch(set, groupLock, "force", "", q.force, "free the key now, without asking")
	addSwitch(set, groupLock, "yes", "y", q.yes, "don't ask back; needed where there is no terminal")
	addFlag(set, groupWaiting, "wait", "w", q.wait, "wait this long until whoever was asked is gone")
	q.register(set, "say only what has gone wrong")
	completeFlags(cmd)
	cmd.RegisterFlagCompletionFunc("id", q.completeID)
	cmd.RegisterFlagCompletionFunc("reason", noWords)
	return cmd
}

const breakExamples = `
# a deployment hangs: ask it to stop, and wait until it has
flockd break deploy/web --reason "hangs at the migration" --wait 2m

# its host is gone for good, and its lease is long
flockd break deploy/web --reason "web2 burnt down" --force --yes
`

// maxReason bounds what whoever is asked has to read, in bytes.
const maxReason = maxNote

func parseReason(text string) (string, error) {
	switch {
	case len(text) > maxReason:
		return "", fmt.Errorf("a reason has %d bytes at most, this one %d", maxReason, len(text))
	case !utf8.ValidString(text):
		return "", errors.New("not valid UTF-8")
	case strings.ContainsFunc(text, unicode.IsControl):
		return "", errors.New("a reason has no control characters")
	}
	return text, nil
}

func (q *breakQuery) run(cmd *cobra.Command, args []string) error {
	key, err := keyArgument(args)
	if err != nil {
		return err
	}
	if err := q.prepare(cmd, key); err != nil {
		return err
	}
	if err := q.check(); err != nil {
		return err
	}
	status, err := q.inspect(cmd.Context(), key)
	if err != nil {
		return err
	}
	claims, err := q.targets(status)
	if err != nil {
		return err
	}
	if err := q.confirm(status, claims); err != nil {
		return err
	}
	return q.ask(cmd.Context(), key, claims)
}

// check refuses what is missing or makes no sense together.
func (q *breakQuery) check() error {
	switch {
	case !q.reason.given():
		return usage(`--reason "why": whoever is asked will see it`, "no reason is given")
	case strings.TrimSpace(q.reason.of) == "":
		return usage("", "--reason is empty: a variable that is missing here?")
	case q.id.given() && q.id.of == "":
		return usage("", "--id is empty: a variable that is missing here?")
	case q.id.given() && q.all.of:
		return usage("", "--id and --all contradict each other")
	}
	return nil
}

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

func (q *query) nothing(key, text string) error {
	q.print.say(slog.LevelInfo, text, slog.String("key", key), slog.String("backend", q.address()))
	return nothingThere
}

// heldOf is claims of a status as a run is told of them.
func heldOf(status backends.Status, claims []backends.Claim) *backends.HeldError {
	holders, _ := split(claims)
	_, waiters := split(status.Line)
	return &backends.HeldError{Key: status.Key, AsOf: status.AsOf, Holders: holders, Waiters: len(waiters)}
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
	question := "ask to stop?"
	if q.force.of {
		question = "free the key now? Until its holder hears of it two commands may run."
	}
	fmt.Fprintf(q.Stderr, "flockd: %s [y/N] ", question)
	answer, _ := bufio.NewReader(q.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return q.nothing(status.Key, "nothing was done")
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

// ask asks the claims to stop.
func (q *breakQuery) ask(ctx context.Context, key string, claims []backends.Claim) error {
	notice := backends.Notice{Kind: backends.Break, By: owner(q.Streams, "flockd", ""), Reason: q.reason.of, Force: q.force.of}
	for _, c := range claims {
		_, err := ask(ctx, q.query, func(ctx context.Context, b backends.Backend) (struct{}, error) {
			return struct{}{}, b.Ask(ctx, key, c.ID, notice)
		})
		if err != nil && !isNotThere(err) {
			return err
		}
		level, text := q.asked(key, c, err)
		q.print.say(level, text, slog.String("key", key), slog.String("backend", q.address()), slog.String("id", c.ID))
	}
	return q.await(ctx, key, claims)
}

// asked says what has come of a question, and what is to be expected.
func (q *breakQuery) asked(key string, c backends.Claim, err error) (slog.Level, string) {
	who := namedOwner(c.Owner)
	switch {
	case err != nil:
		return slog.LevelInfo, who + " has gone by itself"
	case q.force.of && c.State == backends.Holding:
		return slog.LevelWarn, "took " + key + " from " + who + ": its command may still run, and another one beside it, until it is told, " + q.told(c)
	case q.force.of:
		return slog.LevelInfo, "took " + who + " out of the line of " + key
	case c.State == backends.Waiting:
		return slog.LevelInfo, "asked " + who + " to leave the line of " + key + "; it is told " + q.told(c)
	}
	return slog.LevelInfo, "asked " + who + " to stop; it is told " + q.told(c)
}

// told says when a claim hears of a notice: with its next question, unless the store
// can wake it.
func (q *breakQuery) told(c backends.Claim) string {
	if c.State == backends.Waiting {
		if _, ok := backends.As[backends.Waiter](q.store); !ok {
			return "within 5 s"
		}
		return "at once"
	}
	if _, ok := backends.As[backends.Watcher](q.store); !ok {
		return "within 30 s"
	}
	return "at once"
}

// await waits until the claims are gone, for --wait.
func (q *breakQuery) await(ctx context.Context, key string, claims []backends.Claim) error {
	if q.wait.of == 0 {
		return nil
	}
	for end := time.Now().Add(q.wait.of); ; time.Sleep(min(watchEvery, time.Until(end))) {
		status, err := q.inspect(ctx, key)
		if err != nil {
			return err
		}
		left := still(status, claims)
		switch {
		case len(left) == 0:
			q.print.say(slog.LevelInfo, "whoever was asked is gone", slog.String("key", key))
			return nil
		case !time.Now().Before(end):
			return &failure{runner.Skipped, fmt.Errorf("%s has not gone within %s", namedOwner(left[0].Owner), short(q.wait.of)), ""}
		}
	}
}

// still are those of the claims that hold or wait.
func still(status backends.Status, claims []backends.Claim) (left []backends.Claim) {
	for _, now := range status.Line {
		for _, c := range claims {
			if now.ID == c.ID && now.State != backends.Cooling {
				left = append(left, now)
			}
		}
	}
	return left
}

// completeID completes --id with the IDs in the line of the key, and whose they are.
func (q *breakQuery) completeID(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, noFiles
	}
	return q.complete(cmd, args[0], func(ctx context.Context, b backends.Backend, add func(string) bool) {
		status, _ := b.Inspect(ctx, args[0])
		for _, c := range status.Line {
			if strings.HasPrefix(c.ID, begun) && !add(c.ID) {
				return
			}
		}
	}), noFiles
}

func noWords(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, noFiles
}
