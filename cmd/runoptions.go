package cmd

import (
	"errors"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"flockd/backends"
	"flockd/runner"
)

// resolve completes the flags with the variable and the configuration.
func (s *settings) resolve(streams Streams) error {
	if err := s.backendFromVariable(streams); err != nil {
		return err
	}
	paths, must, err := configPaths(s.config.of, streams)
	if err != nil {
		return err
	}
	for _, path := range paths {
		c, err := readConfig(path, must, streams.UID)
		if err != nil {
			return err
		}
		if c == nil {
			continue
		}
		if err := c.apply(s); err != nil {
			return err
		}
	}
	return nil
}

// runOptions are what flags, variable and configuration say, and the command.
func (s *settings) runOptions(streams Streams, args []string) (*runOptions, error) {
	if err := s.checkFlags(args, "flockd run --key nightly-report -- COMMAND [ARG...]"); err != nil {
		return nil, err
	}
	if err := s.resolve(streams); err != nil {
		return nil, err
	}
	if err := s.checkTogether(); err != nil {
		return nil, err
	}
	o, err := s.commandOptions(streams, args)
	if err != nil {
		return nil, err
	}
	o.mode, o.slots, o.minHold, o.once, o.maxWaiters, o.supersede = s.mode(), s.slots.of, s.minHold.of, s.onceOf(), s.maxWaiters.of, s.supersede.of
	o.wait, o.onLost, o.warnSignal = s.wait.of, s.onLost.of, s.warnSignal.of
	o.maxRuntime, o.leftovers, o.onUnavailable = s.maxRuntime.of, s.leftovers.of, s.onUnavailable.of
	o.exits, o.resultFile = s.exits.code, s.resultFile.of
	if s.noWait.of {
		o.wait = 0
	}
	return o, o.checkGrace(backends.Traits{})
}

// commandOptions are those of each command that runs another one under an exclusive hold.
func (s *settings) commandOptions(streams Streams, args []string) (*runOptions, error) {
	text := s.backend.of
	if s.backend.from == fromDefault {
		text = defaultBackend
	}
	backend, err := backends.ParseURL(text)
	if err != nil {
		return nil, badBackend("--backend", err)
	}
	o := &runOptions{
		key: s.key.of, backend: backend, from: s.backend.from, ttl: s.ttl.of, grace: s.grace.of,
		mode: backends.Exclusive, argv: args, chain: chain(streams), note: s.note.of,
		quiet: s.quiet.of, verbose: s.verbose.of && !s.quiet.given(), json: s.logFormat.of == "json",
	}
	if s.shell.given() {
		o.argv = []string{"/bin/sh", "-c", s.shell.of}
	}
	if s.note.from == fromDefault {
		o.note = ciRun(streams)
	}
	if s.backend.from == backendVariable {
		o.inherited = text
	}
	return o, nil
}

// read completes the flags of a command line, in set, with the rest.
func (s *settings) read(set *pflag.FlagSet, streams Streams, args []string) (*runOptions, error) {
	if err := checkValues(set, streams.Args); err != nil {
		return nil, err
	}
	return s.runOptions(streams, args)
}

// checkFlags refuses what is missing and what makes no sense together on a
// command line, of which there is an example.
func (s *settings) checkFlags(args []string, example string) error {
	switch {
	case !s.key.given() && len(args) > 2 && args[1] == "--":
		return usage("--key "+shortened(args[0]), "no key is given: --key KEY")
	case !s.key.given():
		return usage(example, "no key is given: --key KEY")
	case s.noWait.of && s.wait.given():
		return usage("", "--no-wait and --wait %s contradict each other", s.wait.text)
	case s.quiet.of && s.verbose.of:
		return usage("", "--quiet and --verbose contradict each other")
	case s.shell.given() && len(args) > 0:
		return usage("quote the whole command, or leave out -c", "--shell and the argument %s: one of them is the command", shortened(args[0]))
	case s.shell.given() && strings.TrimSpace(s.shell.of) == "":
		return usage("", "--shell is empty: a variable that is missing here?")
	case !s.shell.given() && len(args) == 0:
		return usage(example, "no command is given")
	case s.config.given() && s.config.of == "":
		return usage("", "--config is empty: a variable that is missing here?")
	case s.resultFile.given() && s.resultFile.of == "":
		return usage("", "--result-file is empty: a variable that is missing here?")
	case s.warnSignal.of == syscall.SIGKILL || s.warnSignal.of == syscall.SIGSTOP:
		return usage("", "--warn-signal %s is no warning: it can't be caught", s.warnSignal.text)
	}
	return nil
}

// checkGrace refuses a grace that the TTL has no room for.
func (o *runOptions) checkGrace(traits backends.Traits) error {
	ttl := max(o.ttl, traits.MinTTL)
	if traits.MaxTTL > 0 {
		ttl = min(ttl, traits.MaxTTL)
	}
	_, err := runner.TimingOf(traits, ttl, o.grace)
	var grace *runner.GraceError
	if errors.As(err, &grace) {
		return badGrace(grace)
	}
	return err
}

// badGrace names the TTL that fits.
func badGrace(e *runner.GraceError) error {
	if e.Grace < 0 || e.Largest < 0 {
		return usage("the shortest is --ttl "+short(e.Fits), "--ttl %s is too short for this store", short(e.TTL))
	}
	return usage("--ttl "+short(e.Fits)+" has room for it", "--grace %s doesn't fit a TTL of %s, which allows %s at most",
		short(e.Grace), short(e.TTL), short(e.Largest))
}

// chain are the holds that enclose us, outermost first.
func chain(streams Streams) []string {
	return strings.FieldsFunc(streams.getenv("FLOCKD_HELD"), func(r rune) bool { return r == ',' || r == ' ' })
}
