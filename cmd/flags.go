package cmd

import (
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"flockd/backends"
	"flockd/runner"
)

// settings are the flags of a run. A configuration file may set those that
// presets lists.
type settings struct {
	config *value[string]
	key    *value[string]

	backend       *value[string]
	ttl           *value[time.Duration]
	shared        *value[bool]
	slots         *value[int]
	minHold       *value[time.Duration]
	once          *value[string]
	oncePer       *value[backends.Period]
	onceLead      *value[time.Duration]
	onceKeep      *value[time.Duration]
	tz            *value[*time.Location]
	maxWaiters    *value[int]
	supersede     *value[bool]
	wait          *value[time.Duration]
	noWait        *value[bool]
	onLost        *value[runner.OnLost]
	warnSignal    *value[syscall.Signal]
	grace         *value[time.Duration]
	maxRuntime    *value[time.Duration]
	leftovers     *value[runner.Leftovers]
	onUnavailable *value[runner.OnUnavailable]
	exits         *exits
	resultFile    *value[string]
	note          *value[string]
	shell         *value[string]
	quiet         *value[bool]
	verbose       *value[bool]
	logFormat     *value[string]
}

func newSettings() *settings {
	return &settings{
		config:        newValue("FILE", "", parseText),
		key:           unsetValue("KEY", "", parseKey),
		backend:       unsetValue("URL", "", parseBackend),
		ttl:           newValue("DUR", "5m", atLeast(time.Second)),
		shared:        newSwitch(),
		slots:         unsetValue("N", 0, parseSlots),
		minHold:       newValue("DUR", "0", atLeast(0)),
		once:          unsetValue("ID", "", parseRun),
		oncePer:       unsetValue("DUR|hour|day|week|month", backends.Period{}, parsePeriod),
		onceLead:      newValue("DUR", "30s", atLeast(0)),
		onceKeep:      unsetValue("DUR", 0, atLeast(time.Second)),
		tz:            unsetValue[*time.Location]("ZONE", nil, parseZone),
		maxWaiters:    unsetValue("N", 0, parseMaxWaiters),
		supersede:     newSwitch(),
		wait:          newValue("DUR|forever", "0", parseWait),
		noWait:        newSwitch(),
		onLost:        newValue("kill|warn", "kill", oneOf(runner.Kill, runner.Warn)),
		warnSignal:    newValue("SIG", "URG", parseSignal),
		grace:         unsetValue("DUR", runner.DefaultGrace, atLeast(0)),
		maxRuntime:    newValue("DUR", "0", atLeast(0)),
		leftovers:     unsetValue("leave|wait|kill", runner.Name, oneOf(runner.Leave, runner.Await, runner.Purge)),
		onUnavailable: newValue("fail|skip|run", "fail", oneOf(runner.Fail, runner.Skip, runner.RunUnlocked)),
		exits:         newExits(),
		resultFile:    newValue("FILE", "", parseText),
		note:          newValue("TEXT", "", parseNote),
		shell:         newValue("STRING", "", parseText),
		quiet:         newSwitch(),
		verbose:       newSwitch(),
		logFormat:     newValue("text|json", "text", oneOf("text", "json")),
	}
}

// preset is a setting that a configuration file may hold.
type preset interface {
	preset(text, from string) error
	origin() origin
}

// presets are the settings of a configuration file, by the flags' names. The
// exit codes are not among them: they are several.
func (s *settings) presets() map[string]preset {
	return map[string]preset{
		"backend":        s.backend,
		"ttl":            s.ttl,
		"shared":         s.shared,
		"slots":          s.slots,
		"min-hold":       s.minHold,
		"once-per":       s.oncePer,
		"once-lead":      s.onceLead,
		"once-keep":      s.onceKeep,
		"tz":             s.tz,
		"max-waiters":    s.maxWaiters,
		"supersede":      s.supersede,
		"wait":           s.wait,
		"on-lost":        s.onLost,
		"warn-signal":    s.warnSignal,
		"grace":          s.grace,
		"max-runtime":    s.maxRuntime,
		"leftovers":      s.leftovers,
		"on-unavailable": s.onUnavailable,
		"result-file":    s.resultFile,
		"note":           s.note,
		"quiet":          s.quiet,
		"verbose":        s.verbose,
		"log-format":     s.logFormat,
	}
}

// Groups of flags, in the order of the help.
const (
	groupLock    = "The lock"
	groupOnce    = "Once"
	groupWaiting = "Waiting"
	groupCommand = "The command"
	groupHooks   = "Hooks"
	groupOutcome = "Outcome"
	groupOutput  = "Output"
	groupOther   = "Other"
)

var flagGroups = []string{groupLock, groupOnce, groupWaiting, groupCommand, groupHooks, groupOutcome, groupOutput, groupOther}

// Annotations of flags.
const (
	inGroup   = "group"      // the group in the help
	shortOnly = "short-only" // the long name is not shown
	byDefault = "default"    // what the help says of the default
)

// register adds the flags to set.
func (s *settings) register(set *pflag.FlagSet) {
	s.registerLine(set)
	s.registerCommand(set)
	s.registerOutput(set, "say nothing on a skip, of a run that is done, nor when no store is named")
	addFlockAliases(set)
}

// registerLine adds the flags that say what is asked of the store.
func (s *settings) registerLine(set *pflag.FlagSet) {
	addFlag(set, groupLock, "key", "k", s.key, "the business key: 1 to 512 bytes of UTF-8, kept exactly")
	addFlag(set, groupLock, "backend", "b", s.backend, "where the lock lives").
		Annotations[byDefault] = []string{"$FLOCKD_BACKEND, else the configuration, else sqlite:"}
	addFlag(set, groupLock, "ttl", "", s.ttl, "length of the lease: how long the key stays taken if this host dies. It is renewed while the command runs")
	addSwitch(set, groupLock, "shared", "s", s.shared, "share the key with all others who say --shared")
	addFlag(set, groupLock, "slots", "", s.slots, "share the key with others who say --slots N: at most N hold it at a time, each with a number from 0, FLOCKD_SLOT")
	addFlag(set, groupLock, "min-hold", "", s.minHold, "keep the key taken until this long after the grant, even if the command ended sooner, failed or was killed. flockd doesn't stay for it")
	addFlag(set, groupLock, "on-unavailable", "", s.onUnavailable, "what to do when the store is out of reach, or refuses us, before the start; run means without the lock")

	addFlag(set, groupOnce, "once", "", s.once, "run nothing if a run of KEY with this ID has succeeded before")
	addFlag(set, groupOnce, "once-per", "", s.oncePer, "the same with an ID for each period: run nothing if a run has succeeded in this one. DUR divides a day")
	addFlag(set, groupOnce, "tz", "", s.tz, "the time zone in which a day, week or month begins, such as Europe/Berlin or UTC; needed for these")
	addFlag(set, groupOnce, "once-lead", "", s.onceLead, "begin each period this much early, so that clocks which differ by less agree on it")
	addFlag(set, groupOnce, "once-keep", "", s.onceKeep, "how long a success is remembered").
		Annotations[byDefault] = []string{"for ever with --once, for two periods with --once-per"}

	addFlag(set, groupWaiting, "wait", "w", s.wait, "how long to stand in line; 0 skips at once")
	addSwitch(set, groupWaiting, "no-wait", "n", s.noWait, "the same as --wait 0")
	addFlag(set, groupWaiting, "max-waiters", "", s.maxWaiters, "skip where N stand in line already").
		Annotations[byDefault] = []string{"no limit"}
	addSwitch(set, groupWaiting, "supersede", "", s.supersede, "make those who stand in line leave it, with a skip; whoever holds the key is left alone")
	addFlag(set, groupWaiting, "note", "", s.note, "shown to whoever is kept waiting").
		Annotations[byDefault] = []string{"the CI run's URL, where one is known"}
}

// registerCommand adds those about the command and what becomes of it.
func (s *settings) registerCommand(set *pflag.FlagSet) {
	addFlag(set, groupCommand, "shell", "c", s.shell, "run STRING with /bin/sh -c")
	addFlag(set, groupCommand, "max-runtime", "", s.maxRuntime, "stop the command after this long").
		Annotations[byDefault] = []string{"no limit"}
	addFlag(set, groupCommand, "on-lost", "", s.onLost, "what to do when the lease can't be proven any more: kill stops the command in time, warn lets it run on")
	addFlag(set, groupCommand, "warn-signal", "", s.warnSignal, "what --on-lost warn sends to the command")
	addFlag(set, groupCommand, "grace", "", s.grace, "time between TERM and KILL").
		Annotations[byDefault] = []string{"10s, less where the TTL leaves less"}
	addFlag(set, groupCommand, "leftovers", "", s.leftovers, "what becomes of processes that outlive a command which ended by itself: leave says nothing of them, wait keeps the lock until they have ended, kill stops them").
		Annotations[byDefault] = []string{"they are left, and named in a warning"}

	addFlag(set, groupOutcome, "exit", "", s.exits, "exit with N on skipped, done, lost, unavailable or max-runtime; may be repeated")
	addFlag(set, groupOutcome, "conflict-exit-code", "E", skippedCode{s.exits}, "the same as --exit skipped=N").
		Annotations[shortOnly] = nil
	addFlag(set, groupOutcome, "result-file", "", s.resultFile, "write the outcome to FILE as JSON; +FILE appends a line")
}

// registerOutput adds the others; quiet is what -q does.
func (s *settings) registerOutput(set *pflag.FlagSet, quiet string) {
	addSwitch(set, groupOutput, "quiet", "q", s.quiet, quiet)
	addSwitch(set, groupOutput, "verbose", "v", s.verbose, "say more")
	addFlag(set, groupOutput, "log-format", "", s.logFormat, "how flockd's own lines look")
	addFlag(set, groupOther, "config", "", s.config, "read this configuration alone").
		Annotations[byDefault] = []string{"$FLOCKD_CONFIG, else see flockd.conf(5)"}
}

func addFlag(set *pflag.FlagSet, group, name, short string, v pflag.Value, usage string) *pflag.Flag {
	flag := set.VarPF(v, name, short, usage)
	flag.Annotations = map[string][]string{inGroup: {group}}
	return flag
}

func addSwitch(set *pflag.FlagSet, group, name, short string, v *value[bool], usage string) {
	addFlag(set, group, name, short, repeatable{v}, usage).NoOptDefVal = "true"
}

// repeatable is a switch: to say it twice is to say it.
type repeatable struct{ *value[bool] }

func (r repeatable) Type() string { return "bool" }

func (r repeatable) twice() string { return "" }

// addFlockAliases takes flock(1)'s flags that mean the same here, and those that
// mean nothing here.
func addFlockAliases(set *pflag.FlagSet) {
	for name, short := range map[string]string{"exclusive": "x", "close": "o", "no-fork": "F"} {
		addSwitch(set, groupOther, name, short, newSwitch(), "flock(1)'s: does nothing")
		set.Lookup(name).Hidden = true
	}
	set.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		switch name {
		case "nb", "nonblock":
			name = "no-wait"
		case "command":
			name = "shell"
		}
		return pflag.NormalizedName(name)
	})
}
