package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flockd/backends"
	"flockd/runner"
)

// exited is an exit code that needs no word.
type exited int

func (e exited) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// The exit codes of status.
const (
	statusTaken   exited = 1 // -q: the key is held or cooling, or somebody is in line
	statusOld     exited = 2 // --max-age: the last success is older
	statusUnknown exited = 3 // --max-age: no success is known, or the store doesn't say
)

type statusQuery struct {
	*query
	watch  *value[bool]
	maxAge *value[time.Duration]
}

func (a *app) newStatus() *cobra.Command {
	q := &statusQuery{a.newQuery(), newSwitch(), unsetValue("DUR", 0, atLeast(time.Second))}
	cmd := &cobra.Command{
		Use:   "status [KEY] [flags]",
		Short: "Show who holds a key, who waits, and how it last went",
		Long: "Show all that the store knows of KEY: who holds it and since when, who waits, how\n" +
			"the last run came out, and when it last succeeded. Without KEY, show which store\n" +
			"is in use, where that was set, and how many keys are taken.\n\n" +
			"A key is free if nobody holds it, it isn't cooling (--min-hold), and nobody is in\n" +
			"line.",
		Example:           strings.Trim(statusExamples, "\n"),
		Args:              arguments(0, "KEY"),
		RunE:              q.run,
		ValidArgsFunction: q.completeKey,
	}
	set := cmd.Flags()
	addFlag(set, groupOutcome, "max-age", "", q.maxAge, "say in one line whether the last success ended longer ago than this, by the store's clock; exit with 0 if not, 2 if so, 3 if none is known or the store can't be asked").
		Annotations[byDefault] = []string{"not asked"}
	q.registerJSON(set, "print one JSON object")
	addSwitch(set, groupOutput, "watch", "", q.watch, "keep looking, about once a second: on a terminal draw it anew, else print what has changed")
	q.register(set, "print nothing, and exit with 0 if KEY is free, 1 if it is taken; with --max-age, only don't print the line")
	completeFlags(cmd)
	return cmd
}

const statusExamples = `
# who holds it?
flockd status nightly-report

# in a script
if flockd status -q nightly-report; then echo free; fi

# a check for Nagios and its like: has it succeeded within 26 hours?
flockd status nightly-report --max-age 26h
`

func (q *statusQuery) run(cmd *cobra.Command, args []string) error {
	key := ""
	if len(args) > 0 {
		var err error
		if key, err = keyArgument(args); err != nil {
			return err
		}
	}
	if err := q.check(key); err != nil {
		return err
	}
	if err := q.prepare(cmd, key); err != nil {
		return err
	}
	switch {
	case q.maxAge.given():
		return q.checkAge(cmd.Context(), key)
	case q.quiet.of:
		return q.checkFree(cmd.Context(), key)
	case key == "":
		return q.show(cmd.Context(), q.watch.of, q.lookAtStore)
	}
	return q.show(cmd.Context(), q.watch.of, func(ctx context.Context) (picture, error) { return q.lookAtKey(ctx, key) })
}

// check refuses what makes no sense together.
func (q *statusQuery) check(key string) error {
	var one string
	switch {
	case q.maxAge.given():
		one = "--max-age"
	case q.quiet.of:
		one = "--quiet"
	default:
		return nil
	}
	switch {
	case key == "":
		return usage("flockd status KEY "+one, "%s is about one key, and none is given", one)
	case q.json.of:
		return usage("", "%s and --json contradict each other", one)
	case q.watch.of:
		return usage("", "%s and --watch contradict each other", one)
	}
	return nil
}

func (q *statusQuery) checkFree(ctx context.Context, key string) error {
	status, err := q.inspect(ctx, key)
	if err == nil && stateOf(status) != stateFree {
		return statusTaken
	}
	return err
}

// checkAge answers a monitoring, which reads stdout, and takes other exit codes than
// its own for critical.
func (q *statusQuery) checkAge(ctx context.Context, key string) error {
	text, code := "", statusUnknown
	status, err := q.inspect(ctx, key)
	switch {
	case err == nil:
		text, code = ageOf(status, q.maxAge.of)
		text += "; store " + q.place()
	case resultOf(err).Class != runner.Unavailable:
		return err
	case q.quiet.of:
		q.print.fail(err)
	default:
		text = "UNKNOWN: " + err.Error()
	}
	if !q.quiet.of {
		if _, err := fmt.Fprintln(q.Stdout, q.print.clean(text)); err != nil {
			return err
		}
	}
	if code != 0 {
		return code
	}
	return nil
}

// ageOf judges the last success, which is as old as its end. The words are those of
// the plugins of Nagios.
func ageOf(status backends.Status, most time.Duration) (string, exited) {
	r := status.LastSuccess
	if r == nil || r.End.IsZero() {
		return fmt.Sprintf("UNKNOWN: no success of %s is known", status.Key) + sinceThen(status), statusUnknown
	}
	old := max(0, status.AsOf.Sub(r.End))
	text := fmt.Sprintf("%s last succeeded %s ago, at %s, run by %s", status.Key, age(old), r.End.Local().Format(stamp), namedOwner(r.Owner))
	if old > most {
		text = "CRITICAL: " + text + "; " + short(most) + " at most"
		return text + sinceThen(status), statusOld
	}
	return "OK: " + text + sinceThen(status), 0
}

// sinceThen says how the last run ended, unless that was the last success.
func sinceThen(status backends.Status) string {
	r, success := status.Last, status.LastSuccess
	if r == nil || success != nil && success.Token == r.Token {
		return ""
	}
	when := ""
	if !r.End.IsZero() {
		when = ", " + age(max(0, status.AsOf.Sub(r.End))) + " ago"
	}
	return "; its last run" + when + ", " + endText(r)
}

// statusView is what status shows programs of a key.
type statusView struct {
	keyView
	Backend     string `json:"backend"`
	BackendFrom string `json:"backend_from"`
}

func (q *statusQuery) lookAtKey(ctx context.Context, key string) (picture, error) {
	status, err := q.inspect(ctx, key)
	if err != nil {
		return picture{}, err
	}
	view := viewOf(status)
	return picture{
		text:   statusText(status, q.place(q.from())),
		things: []thing{{name: key, json: statusView{view, q.address(), q.from()}, same: view.unchanged()}},
	}, nil
}

// storeView is what status shows programs of a store. The counts by state are of keys.
type storeView struct {
	Backend     string  `json:"backend"`
	BackendFrom string  `json:"backend_from"`
	Caveat      *string `json:"caveat"`
	Keys        int     `json:"keys"`
	Held        int     `json:"held"`
	Cooling     int     `json:"cooling"`
	Waiting     int     `json:"waiting"`
	Free        int     `json:"free"`
	Waiters     int     `json:"waiters"` // claims in the lines of all keys

	place string // Backend for people
}

func (v *storeView) count(status backends.Status) {
	v.Keys++
	_, waiters := split(status.Line)
	v.Waiters += len(waiters)
	switch stateOf(status) {
	case stateHeld:
		v.Held++
	case stateCooling:
		v.Cooling++
	case stateWaiting:
		v.Waiting++
	default:
		v.Free++
	}
}

func (q *statusQuery) lookAtStore(ctx context.Context) (picture, error) {
	var v storeView
	err := q.each(ctx, "", func(status backends.Status) error {
		v.count(status)
		return nil
	})
	if err != nil {
		return picture{}, err
	}
	v.Backend, v.BackendFrom, v.Caveat, v.place = q.address(), q.from(), q.caveat(), q.place()
	return picture{text: v.text(), things: []thing{{json: v, same: fmt.Sprintf("%+v", v)}}}, nil
}

// caveat is why this store is worth less than others of its kind; nil: it isn't.
func (q *query) caveat() *string {
	if c, ok := backends.As[backends.Cautioner](q.store); ok && c.Caveat() != "" {
		text := q.print.clean(c.Caveat())
		return &text
	}
	return nil
}

func (v storeView) text() string {
	var s sheet
	s.line("store", "%s", v.place)
	s.line("named by", "%s", v.BackendFrom)
	if v.Caveat != nil {
		s.line("caveat", "%s", *v.Caveat)
	}
	s.line("keys", "%s", v.counts())
	s.line("waiters", "%d", v.Waiters)
	return s.String()
}

// counts is "12: 3 held, 9 free".
func (v storeView) counts() string {
	if v.Keys == 0 {
		return "none: no key has been used here"
	}
	var parts []string
	for _, c := range []struct {
		n    int
		what string
	}{{v.Held, "held"}, {v.Cooling, "cooling"}, {v.Waiting, "whose next in line hasn't taken its turn yet"}, {v.Free, "free"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return fmt.Sprintf("%d: %s", v.Keys, strings.Join(parts, ", "))
}
