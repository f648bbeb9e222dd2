package cmd

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"flockd/backends"
	"flockd/election"
)

// electSettings are the flags of a candidate. Of a run's settings, which a configuration file may
// hold, those count that it has as well.
type electSettings struct {
	*settings
	restart   *value[election.Restart]
	onElected *value[string]
	onDeposed *value[string]
	hookLimit *value[time.Duration]
}

// electTTL is how long nobody leads after a leader's host has died. Below some 10 s etcd would take
// a change of its own leader for a loss.
const electTTL = "15s"

func newElectSettings() *electSettings {
	s := &electSettings{
		settings:  newSettings(),
		restart:   newValue("always|on-failure|never", "always", oneOf(election.Always, election.OnFailure, election.Never)),
		onElected: newValue("STRING", "", parseText),
		onDeposed: newValue("STRING", "", parseText),
		hookLimit: newValue("DUR", "10s", parseHookLimit),
	}
	s.ttl = newValue("DUR", electTTL, atLeast(time.Second))
	return s
}

func parseHookLimit(text string) (time.Duration, error) {
	d, err := atLeast(0)(text)
	if err == nil && d < time.Millisecond {
		err = errors.New("a hook always has a limit, of 1ms at least")
	}
	return d, err
}

// register adds the flags to set.
func (s *electSettings) register(set *pflag.FlagSet) {
	addFlag(set, groupLock, "key", "k", s.key, "what is campaigned for: 1 to 512 bytes of UTF-8, kept exactly")
	addFlag(set, groupLock, "backend", "b", s.backend, "where the key lives").
		Annotations[byDefault] = []string{"$FLOCKD_BACKEND, else the configuration, else sqlite:"}
	addFlag(set, groupLock, "ttl", "", s.ttl, "length of the lease: how long nobody leads if this host dies. It is renewed while the command runs")
	addFlag(set, groupWaiting, "note", "", s.note, "shown to the other candidates").
		Annotations[byDefault] = []string{"the CI run's URL, where one is known"}

	addFlag(set, groupCommand, "shell", "c", s.shell, "run STRING with /bin/sh -c")
	addFlag(set, groupCommand, "grace", "", s.grace, "time between TERM and KILL").
		Annotations[byDefault] = []string{"10s; where the lease can't be kept, less if the TTL leaves less"}
	addFlag(set, groupCommand, "restart", "", s.restart, "whether to campaign again when the command has ended by itself; else flockd ends with its exit code")

	addFlag(set, groupHooks, "on-elected", "", s.onElected, "run STRING with /bin/sh -c beside the command, once it has been started")
	addFlag(set, groupHooks, "on-deposed", "", s.onDeposed, "run STRING with /bin/sh -c when nothing of the command is left, but not where flockd itself is killed; why is in FLOCKD_DEPOSED")
	addFlag(set, groupHooks, "hook-limit", "", s.hookLimit, "kill a hook after this long")

	s.registerOutput(set, "say only what has gone wrong")
}

// electOptions are a candidate as the user wants it.
type electOptions struct {
	*runOptions
	restart              election.Restart
	onElected, onDeposed string // lines of shell; empty: none
	hookLimit            time.Duration
}

// electOptions are what flags, variable and configuration say, and the command.
func (s *electSettings) electOptions(streams Streams, args []string) (*electOptions, error) {
	if err := s.checkFlags(args, "flockd elect --key importer -- COMMAND [ARG...]"); err != nil {
		return nil, err
	}
	for _, hook := range []struct {
		name string
		line *value[string]
	}{{"--on-elected", s.onElected}, {"--on-deposed", s.onDeposed}} {
		if hook.line.given() && strings.TrimSpace(hook.line.of) == "" {
			return nil, usage("", "%s is empty: a variable that is missing here?", hook.name)
		}
	}
	if s.hookLimit.given() && s.onElected.of == "" && s.onDeposed.of == "" {
		return nil, usage("", "--hook-limit only makes sense with --on-elected or --on-deposed")
	}
	if err := s.resolve(streams); err != nil {
		return nil, err
	}
	run, err := s.commandOptions(streams, args)
	if err != nil {
		return nil, err
	}
	o := &electOptions{run, s.restart.of, s.onElected.of, s.onDeposed.of, s.hookLimit.of}
	return o, o.checkGrace(backends.Traits{})
}
