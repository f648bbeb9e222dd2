//go:build linux

package torture

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"flockd/backends"
)

// span is the life of one command, as it has seen itself: its processes' first and
// last stamp.
type span struct {
	key, id     string
	token       backends.Token
	first, last int64
	ended       bool // it came to its own end
}

// spansIn reads the stamps in folder.
func spansIn(folder string) ([]*span, error) {
	text, err := os.ReadFile(filepath.Join(folder, "stamps"))
	if err != nil {
		return nil, err
	}
	spans := map[holdID]*span{}
	for line := range bytes.Lines(text) {
		var at int64
		var what, id, key string
		var token backends.Token
		if _, err := fmt.Sscan(string(line), &at, &what, &token, &id, &key); err != nil {
			return nil, fmt.Errorf("%w: %q", err, line)
		}
		hold := holdID{id, token}
		if spans[hold] == nil {
			spans[hold] = &span{key: key, id: id, token: token, first: at}
		}
		s := spans[hold]
		s.first, s.last, s.ended = min(s.first, at), max(s.last, at), s.ended || what == "end"
	}
	return slices.Collect(maps.Values(spans)), nil
}

// checkOracle passes on what commands found that saw another one alive.
func checkOracle(folder string) error {
	text, err := os.ReadFile(filepath.Join(folder, "violations"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("two at a time, says the kernel:\n%s", text)
}

// checkSpans wants no two commands of a key alive at a time, each later than those
// with smaller tokens. Those of mixed keys may be.
func checkSpans(spans []*span) error {
	spans = slices.SortedFunc(slices.Values(spans), func(a, b *span) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.token, b.token))
	})
	var errs []error
	for i := range spans[min(1, len(spans)):] {
		a, b := spans[i], spans[i+1]
		if a.key == b.key && b.first <= a.last && !mixed(a.key) {
			errs = append(errs, fmt.Errorf("%q: token %d lived until %d, token %d from %d: %v too long",
				a.key, a.token, a.last, b.token, b.first, time.Duration(a.last-b.first)))
		}
	}
	return errors.Join(errs...)
}

// together counts the commands that came while another one of their key was alive.
func together(spans []*span) (n int) {
	for _, s := range spans {
		if slices.ContainsFunc(spans, func(other *span) bool {
			return other.key == s.key && other != s && other.first <= s.first && s.first <= other.last
		}) {
			n++
		}
	}
	return n
}

// checkDeadlines wants every command dead before its lease could have passed on,
// whether somebody was there to take it or not. It returns the shortest time
// that was left.
func checkDeadlines(spans []*span, lives map[string]*life) (closest time.Duration, _ error) {
	var errs []error
	closest = never
	for _, s := range spans {
		var g *grant
		if l := lives[s.id]; l != nil {
			g = l.grant(s.token)
		}
		if g == nil {
			errs = append(errs, fmt.Errorf("%q: token %d ran without a grant", s.key, s.token))
			continue
		}
		left := time.Duration(g.validUntil() - s.last)
		closest = min(closest, left)
		if left <= 0 {
			errs = append(errs, fmt.Errorf("%q: token %d lived %v longer than its lease could be proven", s.key, s.token, -left))
		}
	}
	return closest, errors.Join(errs...)
}

// checkReleases wants nobody to ask for the end of a hold while its command lives.
func checkReleases(spans []*span, lives map[string]*life) error {
	var errs []error
	for _, s := range spans {
		if l := lives[s.id]; l != nil && l.parting <= s.last {
			errs = append(errs, fmt.Errorf("%q: token %d was given back %v before its command was dead", s.key, s.token, time.Duration(s.last-l.parting)))
		}
	}
	return errors.Join(errs...)
}

// inheritance is what came of the holds of those flockd that were killed alone.
type inheritance struct {
	holds int             // whose command ran, and that had a lease to be ended
	asked int             // of which the store was asked for the end in their time
	given []time.Duration // how long after the kill each of those was free that were given back
}

func inherit(exits []exit, spans []*span, lives map[string]*life) (i inheritance) {
	for _, s := range spans {
		l := lives[s.id]
		for _, e := range exits {
			if l != nil && l.pid == int(e.job.session) && s.first > e.job.began && s.first < e.job.alone && l.bereft(e.job.alone) {
				i.add(l, e.job.alone)
			}
		}
	}
	return i
}

func (i *inheritance) add(l *life, killed int64) {
	g := l.grants[len(l.grants)-1]
	i.holds++
	if l.parting < g.validUntil() {
		i.asked++
	}
	if g.released {
		i.given = append(i.given, time.Duration(l.ended-killed))
	}
}

// bereft reports whether a hold was there when its flockd was killed, and yet was not
// being given back.
func (l *life) bereft(killed int64) bool {
	n := len(l.grants)
	return n > 0 && l.grants[n-1].told < killed && killed < l.grants[n-1].validUntil() && killed < min(l.ended, l.parting)
}

// check wants the end of most of them to have been asked for in time; whether the store
// listened is its own affair. One of a few may be missed: a guard that a busy host starves.
func (i inheritance) check() error {
	if missed := i.holds - i.asked; missed > max(1, i.holds/4) || missed == i.holds && missed > 0 {
		return fmt.Errorf("of %d keys whose flockd was killed only %d were given back", i.holds, i.asked)
	}
	return nil
}

// since is the instant after which the grant was made. The reply to a first grant may have been
// lost, and the same told again: of a mixed key others may have been granted meanwhile.
func (g *grant) since() int64 {
	if mixed(g.key) {
		return g.asked
	}
	return g.sent
}

// checkTokens wants a larger token of each grant than of all those that were told
// before it was asked for.
func checkTokens(grants []*grant) error {
	byKey := map[string][]*grant{}
	for _, g := range grants {
		byKey[g.key] = append(byKey[g.key], g)
	}
	var errs []error
	for key, grants := range byKey {
		told := slices.SortedFunc(slices.Values(grants), func(a, b *grant) int { return cmp.Compare(a.told, b.told) })
		slices.SortFunc(grants, func(a, b *grant) int { return cmp.Compare(a.since(), b.since()) })
		var most backends.Token
		for _, g := range grants {
			for len(told) > 0 && told[0].told < g.since() {
				most = max(most, told[0].token)
				told = told[1:]
			}
			if g.token <= most {
				errs = append(errs, fmt.Errorf("%q: token %d was granted after %d", key, g.token, most))
			}
		}
	}
	return errors.Join(errs...)
}

// checkAtMost is how long porcupine may think. It takes well under a second.
const checkAtMost = time.Minute

// checkModel wants an order of all requests in which an exclusive lock would have
// given these answers.
func checkModel(ops []porcupine.Operation) error {
	result := porcupine.CheckOperationsTimeout(model, ops, checkAtMost)
	if result == porcupine.Ok {
		return nil
	}
	var errs []error
	for _, part := range byKey(ops) {
		if porcupine.CheckOperationsTimeout(model, part, checkAtMost) == porcupine.Ok {
			continue
		}
		slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		text := fmt.Appendf(nil, "%q: no lock can have answered so (%v):\n", part[0].Input.(input).key, result)
		for _, op := range part {
			text = fmt.Appendf(text, "  %d to %d: %s\n", op.Call, op.Return, model.DescribeOperation(op.Input, op.Output))
		}
		errs = append(errs, errors.New(string(text)))
	}
	return errors.Join(errs...)
}
