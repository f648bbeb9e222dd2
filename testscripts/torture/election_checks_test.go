//go:build linux

package torture

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"flockd/backends"
)

// check judges all that was seen.
func (e *election) check() {
	lives, spans, heirs, err := e.seen()
	e.gaps, e.others = gapsOf(e.changes, spans), max(len(e.terms())-1-len(e.changes), 0)
	hooks, err2 := hooksIn(e.folder)
	_, err3 := checkDeadlines(spans, lives)
	for _, err := range []error{
		err, err2, err3, checkOracle(e.folder), checkSpans(spans), checkOrder(e.terms()), checkTokens(grantsOf(lives)),
		checkReleases(spans, lives), heirs.check(), checkModel(operations(e.history.all())), e.checkBook(), e.checkEnds(),
		e.checkHooks(hooks, spans), e.checkReasons(hooks), e.checkLate(), e.checkGone(),
	} {
		if err != nil {
			e.t.Error(err)
		}
	}
}

// checkOrder wants each term to be larger than those that began before it.
func checkOrder(terms []term) error {
	var errs []error
	for i := range terms[min(1, len(terms)):] {
		if a, b := terms[i], terms[i+1]; b.token <= a.token {
			errs = append(errs, fmt.Errorf("term %d began after term %d", b.token, a.token))
		}
	}
	return errors.Join(errs...)
}

// linesOf is what probes have appended to a file; none, if it isn't there.
func linesOf(folder, name string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(folder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var lines []string
	for line := range bytes.Lines(text) {
		lines = append(lines, strings.TrimSuffix(string(line), "\n"))
	}
	return lines, err
}

// lostUpdates are the lines that were put into the book, and are not in it any more.
func lostUpdates(folder string) (lost []string, _ error) {
	written, err := linesOf(folder, "written")
	book, err2 := linesOf(folder, "book")
	in := map[string]bool{}
	for _, line := range book {
		in[line] = true
	}
	for _, line := range written {
		if !in[line] {
			lost = append(lost, line)
		}
	}
	return lost, errors.Join(err, err2)
}

// stale is flockd's exit code for a fencing token that is too small.
const stale = 80

// refusals are the writers whose token was too small, one for each refusal. Any other failure
// that isn't the writer's own end is an error.
func refusals(folder string) (tokens []backends.Token, _ error) {
	lines, err := linesOf(folder, "refused")
	for _, line := range lines {
		var token backends.Token
		var code int
		if _, err := fmt.Sscan(line, &token, &code); err != nil {
			return nil, fmt.Errorf("%w: %q", err, line)
		}
		switch code {
		case stale:
			tokens = append(tokens, token)
		case -1, terminated, 128 + int(syscall.SIGUSR1): // with the command
		default:
			err = errors.Join(err, fmt.Errorf("fence file: %s", line))
		}
	}
	return tokens, err
}

// checkBook wants no update to be lost, and nobody to have written when another one did.
func (e *election) checkBook() error {
	lost, err := lostUpdates(e.folder)
	if len(lost) > 0 {
		err = errors.Join(err, fmt.Errorf("%d lost updates: %q", len(lost), lost))
	}
	refused, err2 := refusals(e.folder)
	if len(refused) > 0 {
		err2 = errors.Join(err2, fmt.Errorf("writes of old terms: %d", refused))
	}
	return errors.Join(err, err2)
}

// checkEnds wants no candidate to have ended but those that were killed, or told to.
func (e *election) checkEnds() error {
	told := map[*job]bool{}
	for _, c := range e.candidates {
		told[c.job] = c.told
	}
	var errs []error
	for _, x := range e.ends() {
		switch {
		case x.job.killed && x.code == -9:
		case told[x.job] && (x.code == finished || x.code == lost):
		case told[x.job] && x.code == -15 && x.stderr == "": // it had just been started
		default:
			errs = append(errs, fmt.Errorf("candidate %d ended with %d: %s", x.job.session, x.code, x.stderr))
		}
	}
	return errors.Join(errs...)
}

// checkLate wants most leaders to be elected before the fault is put right.
func (e *election) checkLate() error {
	late := slices.DeleteFunc(slices.Clone(e.changes), func(c change) bool { return !c.late })
	if len(late) > 1+len(e.changes)/50 {
		return fmt.Errorf("nobody is elected within %v: %+v", electedWithin, late)
	}
	return nil
}
