package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"flockd/backends"
	"flockd/runner"
)

// maxSlots bounds what everybody in line has to read: who holds the key, all of them.
const maxSlots = 1000

func parseSlots(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxSlots {
		return 0, fmt.Errorf("a number from 1 to %d is expected", maxSlots)
	}
	return n, nil
}

func parseMaxWaiters(text string) (int, error) {
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < 0:
		return 0, errors.New("a number from 0 is expected")
	case n == 0:
		return runner.Nobody, nil
	}
	return n, nil
}

// rivals are the settings of which one rules out the others.
var rivals = map[string][]string{
	"shared":      {"slots", "once", "once-per"},
	"slots":       {"shared", "once", "once-per"},
	"once-per":    {"shared", "slots", "once"},
	"supersede":   {"max-waiters"},
	"max-waiters": {"supersede"},
}

// overruled are the settings that a weaker source can't bring in any more: what rules them
// out is in effect.
func (s *settings) overruled() map[string]bool {
	inEffect := map[string]bool{
		"shared": s.shared.of, "slots": s.slots.of > 0,
		"once": s.once.of != "", "once-per": s.oncePer.of != backends.Period{},
		"supersede": s.supersede.of, "max-waiters": s.maxWaiters.of != 0,
	}
	names := map[string]bool{}
	for name, others := range rivals {
		names[name] = slices.ContainsFunc(others, func(other string) bool { return inEffect[other] })
	}
	return names
}

// checkTogether refuses what makes no sense together, wherever it was set, and flags that
// do nothing. A setting of a file that does nothing is there for other runs.
func (s *settings) checkTogether() error {
	for _, check := range []func() error{s.checkModes, s.checkOnce, s.checkPeriod, s.checkLine} {
		if err := check(); err != nil {
			return err
		}
	}
	if s.warnSignal.given() && s.onLost.of != runner.Warn {
		return s.useless("warn-signal", "--on-lost warn")
	}
	return nil
}

// as is a setting as a flag has it, with where it comes from unless it is one.
func (s *settings) as(name string) string {
	if name == "once" {
		return "--once " + shortened(s.once.of)
	}
	o := s.presets()[name].origin()
	text := "--" + name
	if o.Value != "true" {
		text += " " + shortened(o.Value)
	}
	if o.From != fromFlag && o.From != fromDefault {
		text += " (" + o.From + ")"
	}
	return text
}

func (s *settings) contradict(a, b, why string) error {
	return usage("", "%s and %s contradict each other: %s", s.as(a), s.as(b), why)
}

func (s *settings) useless(name, with string) error {
	return usage("", "%s only makes sense with %s", s.as(name), with)
}

func (s *settings) checkModes() error {
	if s.shared.of && s.slots.of > 0 {
		return s.contradict("shared", "slots", "any number of holders, or so many")
	}
	return nil
}

// onceBy is the flag that makes a run one that isn't repeated; empty: it is none.
func (s *settings) onceBy() string {
	switch {
	case s.once.of != "":
		return "once"
	case s.oncePer.of != backends.Period{}:
		return "once-per"
	}
	return ""
}

func (s *settings) checkOnce() error {
	by := s.onceBy()
	switch {
	case by == "" && s.onceKeep.given():
		return s.useless("once-keep", "--once or --once-per")
	case by == "":
	case s.shared.of:
		return s.contradict(by, "shared", "a run that isn't repeated has the key alone")
	case s.slots.of > 0:
		return s.contradict(by, "slots", "a run that isn't repeated has the key alone")
	case s.onUnavailable.of == runner.RunUnlocked:
		return s.contradict(by, "on-unavailable", "without the store nobody knows what has succeeded")
	}
	return nil
}

func (s *settings) checkPeriod() error {
	per := s.oncePer.of
	switch {
	case per == backends.Period{} && s.tz.given():
		return s.useless("tz", "--once-per")
	case per == backends.Period{} && s.onceLead.given():
		return s.useless("once-lead", "--once-per")
	case per == backends.Period{}:
	case s.once.of != "":
		return s.contradict("once", "once-per", "one of them names the run")
	case per.Unit != backends.Fixed && s.tz.of == nil:
		return usage("--tz Europe/Berlin, for example, or --tz UTC", "%s needs --tz ZONE: where does a %s begin?", s.as("once-per"), per.Unit)
	case per.Unit == backends.Fixed && s.tz.given() && s.tz.text != "UTC":
		return usage("", "%s only makes sense with a day or longer: %s is aligned to midnight UTC", s.as("tz"), s.as("once-per"))
	case per.Unit == backends.Fixed && s.onceLead.of >= per.Every:
		return usage("--once-lead "+short(per.Every/10)+", for example: as far as the clocks may differ", "%s must be less than %s", s.as("once-lead"), s.as("once-per"))
	case per.Unit != backends.Fixed && s.onceLead.of >= day:
		return usage("", "%s must be less than a day", s.as("once-lead"))
	case s.onceKeep.of != 0 && s.onceKeep.of < longestOf(per):
		return usage("", "%s must be %s at least with %s, which can last as long", s.as("once-keep"), short(longestOf(per)), s.as("once-per"))
	}
	return nil
}

func (s *settings) checkLine() error {
	waits := s.wait.of != 0 && !s.noWait.of
	switch {
	case s.supersede.of && s.maxWaiters.of != 0:
		return s.contradict("supersede", "max-waiters", "those in line leave it, or whoever comes")
	case s.supersede.of && s.supersede.given() && !waits:
		return s.useless("supersede", "--wait")
	case s.maxWaiters.given() && !waits:
		return s.useless("max-waiters", "--wait")
	}
	return nil
}

// mode is who may hold the key at the same time.
func (s *settings) mode() backends.Mode {
	switch {
	case s.shared.of:
		return backends.Shared
	case s.slots.of > 0:
		return backends.Slots
	}
	return backends.Exclusive
}

// onceOf is the run that isn't repeated; nil: it is repeated.
func (s *settings) onceOf() *backends.Once {
	switch s.onceBy() {
	case "once":
		return &backends.Once{ID: s.once.of, Keep: s.onceKeep.of}
	case "once-per":
		return &backends.Once{Per: s.oncePer.of, Lead: s.onceLead.of, Zone: s.tz.of, Keep: s.onceKeep.of}
	}
	return nil
}
