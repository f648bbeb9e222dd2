//go:build linux

package torture

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"flockd/backends"
)

// hooked is a hook that ran.
type hooked struct {
	what         string // elected or deposed
	candidate    int
	token        backends.Token
	why          string // FLOCKD_DEPOSED, or -
	began, ended int64  // ended: never where it was killed
}

func hooksIn(folder string) (hooks []*hooked, _ error) {
	lines, err := linesOf(folder, "hooks")
	for _, line := range lines {
		h, event := hooked{ended: never}, ""
		if _, err := fmt.Sscan(line, &h.began, &h.what, &event, &h.candidate, &h.token, &h.why); err != nil {
			return nil, fmt.Errorf("%w: %q", err, line)
		}
		if event == "begin" {
			hooks = append(hooks, &h)
			continue
		}
		for _, begun := range hooks {
			if begun.what == h.what && begun.candidate == h.candidate && begun.token == h.token {
				begun.ended = h.began
			}
		}
	}
	return hooks, err
}

// checkHooks wants of each term a hook when it began, and one when nothing of its command was
// left. Where flockd was killed there is none in the end; and none in the beginning of a term that
// is over soon, or that began beside the last one's hook.
func (e *election) checkHooks(hooks []*hooked, spans []*span) error {
	var errs []error
	for _, t := range e.terms() {
		s := spans[slices.IndexFunc(spans, func(s *span) bool { return s.token == t.token })]
		c := e.candidate(t)
		elected, deposed := hooksOf(hooks, "elected", t.token), hooksOf(hooks, "deposed", t.token)
		var err error
		switch {
		case len(elected) > 1 || len(deposed) > 1:
			err = fmt.Errorf("%d hooks at its begin, %d at its end", len(elected), len(deposed))
		case len(elected) == 0 && time.Duration(s.last-s.first) > beginsWithin && !busy(hooks, c, s):
			err = errors.New("no hook at its begin")
		case len(deposed) == 0 && !c.killed:
			err = errors.New("no hook at its end")
		case len(deposed) == 1 && deposed[0].began <= s.last:
			err = errors.New("on-deposed before its command was dead")
		case len(deposed) == 1 && len(elected) == 1 && elected[0].began > deposed[0].began:
			err = errors.New("on-elected after on-deposed")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("term %d of candidate %d: %w", t.token, c.number, err))
		}
	}
	return errors.Join(errs...)
}

// beginsWithin is how long a busy host may take to start a hook.
const beginsWithin = 2 * time.Second

// busy reports whether a hook of an earlier term ran in the time of a command.
func busy(hooks []*hooked, c *candidate, s *span) bool {
	return slices.ContainsFunc(hooks, func(h *hooked) bool {
		ended := min(h.ended, h.began+int64(hookLimit+beginsWithin))
		return h.what == "deposed" && h.candidate == c.number && h.began < s.last && ended > s.first
	})
}

func hooksOf(hooks []*hooked, what string, token backends.Token) (found []*hooked) {
	for _, h := range hooks {
		if h.what == what && h.token == token {
			found = append(found, h)
		}
	}
	return found
}

// checkReasons wants the hook of each term that was ended to hear why. A busy host may lose a
// lease at any time.
func (e *election) checkReasons(hooks []*hooked) error {
	var errs []error
	for _, c := range e.changes {
		for _, h := range hooksOf(hooks, "deposed", c.old.token) {
			if h.why != c.told && h.why != "lost" {
				errs = append(errs, fmt.Errorf("term %d, ended by %s: on-deposed hears %q, not %q", c.old.token, c.means, h.why, c.told))
			}
		}
	}
	return errors.Join(errs...)
}
