package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flockd/backends"
	"flockd/runner"
	"flockd/runner/proof"
)

type checkQuery struct {
	*query
	least *value[time.Duration]

	hold backends.Lease // as the variables name it: key, ID and token
}

func (a *app) newCheck() *cobra.Command {
	q := &checkQuery{query: a.newQuery(), least: newValue("DUR", "0", atLeast(0))}
	cmd := &cobra.Command{
		Use:   "check [flags]",
		Short: "Prove that the hold of this command still stands",
		Long: "Prove that the hold still stands under which flockd run has started this command,\n" +
			"by a renewal that is sent now, and print how long its lease lasts yet, at least.\n" +
			"It is for the line before what can't be undone. The hold is the one of FLOCKD_KEY,\n" +
			"FLOCKD_ID and FLOCKD_TOKEN.\n\n" +
			"Inside the command flockd itself answers; elsewhere the store is asked.",
		Example:           strings.Trim(checkExamples, "\n"),
		Args:              noArguments,
		RunE:              q.run,
		ValidArgsFunction: noWords,
	}
	set := cmd.Flags()
	addFlag(set, groupLock, "min-remaining", "", q.least, "so much of the lease has to be left, for what comes next; let the run's --ttl be longer by 6s and 2 %, for the answer and for clocks that don't run alike")
	q.registerJSON(set, "print a JSON object, also where the hold is lost or nobody can tell")
	q.register(set, "print nothing but what has gone wrong")
	completeFlags(cmd)
	return cmd
}

const checkExamples = `
# in a script that flockd runs: pay only while the key is ours
flockd check --min-remaining 30s -q || exit
./pay.sh
`

// checked is what has come of a check, where it came to something.
type checked struct {
	proof.Answer
	by  string // flockd or store; empty: nobody
	err error  // with Unknown; nil: Why tells
}

func (q *checkQuery) run(cmd *cobra.Command, _ []string) error {
	if err := q.checkFlags(cmd); err != nil {
		return err
	}
	if q.quiet.of && q.json.of {
		return usage("", "--quiet and --json contradict each other")
	}
	var err error
	if q.hold, err = holdOf(q.Streams); err != nil {
		return err
	}
	unresolved := q.resolve(q.hold.Key)
	c, err := q.askFlockd(cmd.Context())
	if errors.Is(err, proof.ErrNobody) {
		if unresolved != nil {
			return unresolved
		}
		c, err = q.askStore(cmd.Context())
	}
	if err != nil {
		return err
	}
	return q.tell(c)
}

// askFlockd asks the flockd that runs us. Errors: proof.ErrNobody.
func (q *checkQuery) askFlockd(ctx context.Context) (checked, error) {
	a, err := runner.Ask(ctx, proof.Question{Key: q.hold.Key, ID: q.hold.ID, Token: int64(q.hold.Token), Least: q.least.of})
	switch {
	case errors.Is(err, proof.ErrNobody):
		return checked{}, err
	case err != nil:
		return unknown("", err, "is it stopped? The store isn't asked in its stead"), nil
	}
	if a.State == proof.Unknown {
		a.Why = "flockd could not renew: " + a.Why
	}
	return checked{Answer: a, by: "flockd"}, nil
}

// unknown is a check that nobody could answer.
func unknown(by string, err error, hint string) checked {
	return checked{proof.Answer{State: proof.Unknown, Why: err.Error()}, by, &failure{runner.Unavailable, err, hint}}
}

// askStore asks the store, where it is named. Errors: the user's.
func (q *checkQuery) askStore(ctx context.Context) (checked, error) {
	if q.settings.backend.from == fromDefault {
		return unknown("", proof.ErrNobody, "where flockd runs elsewhere, --backend URL or FLOCKD_BACKEND names the store to be asked; "+handOn), nil
	}
	q.begin()
	a, err := ask(ctx, q.query, func(ctx context.Context, b backends.Backend) (proof.Answer, error) {
		return runner.Prove(ctx, b, q.hold, q.least.of)
	})
	switch {
	case err == nil:
		return checked{Answer: a, by: "store"}, nil
	case errors.Is(err, errUnused):
		return unknown("store", fmt.Errorf("%s: it is not the one that has granted %s", q.neverUsed(), q.hold.Key), ""), nil
	case resultOf(err).Class == runner.Unavailable:
		return checked{proof.Answer{State: proof.Unknown, Why: err.Error()}, "", err}, nil
	}
	return checked{}, err
}

// tell says how the hold stands.
func (q *checkQuery) tell(c checked) error {
	err := q.judge(&c)
	if c.State == proof.Other || c.Never || q.quiet.of {
		return err
	}
	var text bytes.Buffer
	switch {
	case q.json.of:
		if err := writeLine(&text, q.view(c)); err != nil {
			return err
		}
	case c.State == proof.Held && err == nil:
		fmt.Fprintln(&text, remaining(c.Lasts))
	}
	if _, unwritten := q.Stdout.Write(text.Bytes()); unwritten != nil {
		return unwritten
	}
	return err
}

// judge is nil if the hold stands as long as it has to, else what is said and which exit code
// it gets.
func (q *checkQuery) judge(c *checked) error {
	hold := fmt.Sprintf("%s (token %d)", q.hold.Key, q.hold.Token)
	switch c.State {
	case proof.Other:
		return usage("", "FLOCKD_KEY, FLOCKD_ID and FLOCKD_TOKEN are not those of one hold")
	case proof.Lost:
		return &failure{runner.Lost, fmt.Errorf("lost the lock on %s: %s", hold, c.Why), ""}
	case proof.Stopping:
		return &failure{runner.Lost, fmt.Errorf("the command under %s is to stop: %s", hold, c.Why), ""}
	case proof.Held:
		return q.enough(c)
	}
	if c.err == nil {
		c.err = &failure{runner.Unavailable, errors.New(c.Why), ""}
	}
	return &failure{runner.Unavailable, fmt.Errorf("can't tell whether %s is still held: %w", hold, c.err), hintOf(c.err)}
}

// enough is nil if so much is left of a lease that stands.
func (q *checkQuery) enough(c *checked) error {
	hint := ""
	if c.Fits != 0 {
		hint = fmt.Sprintf("flockd run --ttl %s leaves as much, also where the answer takes %s", short(c.Fits), short(proof.AnsweredWithin))
	}
	switch {
	case c.Never:
		return usage(hint, "--min-remaining %s can't be left of a TTL of %s", q.least.text, short(c.TTL))
	case c.Lasts <= 0:
		c.State, c.Why = proof.Unknown, "the answer came so late that nothing of the lease is left"
		return &failure{runner.Unavailable, errors.New(c.Why), hint}
	case c.Lasts < q.least.of:
		c.Why = fmt.Sprintf("the answer came so late that %s of its lease is left, less than --min-remaining %s", remaining(c.Lasts), q.least.text)
		return &failure{runner.Unavailable, fmt.Errorf("%s (token %d) is held, but %s", q.hold.Key, q.hold.Token, c.Why), hint}
	}
	return nil
}

// remaining shows what is left at least.
func remaining(d time.Duration) string {
	if d < 10*time.Second {
		return short(d.Truncate(100 * time.Millisecond))
	}
	return short(d.Truncate(time.Second))
}

// checkView is what programs are shown.
type checkView struct {
	Key        string         `json:"key"`
	ID         string         `json:"id"`
	Token      backends.Token `json:"token"`
	State      proof.State    `json:"state"`
	Remaining  *float64       `json:"remaining"` // seconds
	TTL        *float64       `json:"ttl"`
	Why        *string        `json:"why"`
	AnsweredBy *string        `json:"answered_by"`
}

func (q *checkQuery) view(c checked) checkView {
	v := checkView{Key: q.hold.Key, ID: q.hold.ID, Token: q.hold.Token, State: c.State}
	if c.State == proof.Held {
		left, ttl := c.Lasts.Truncate(time.Millisecond).Seconds(), c.TTL.Seconds()
		v.Remaining, v.TTL = &left, &ttl
	}
	if c.Why != "" {
		why := q.print.clean(c.Why)
		v.Why = &why
	}
	if c.by != "" {
		v.AnsweredBy = &c.by
	}
	return v
}
