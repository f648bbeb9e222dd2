package cmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manual is what the man page of a command says beside what the command knows.
type manual struct {
	description string
	more        func(*roff) // sections between the options and the rest; may be nil
	see         []string
}

var manuals = map[string]manual{
	"flockd": {
		description: `flockd runs a command under a lock. The lock lives in a store: a file of this host, a Redis, an etcd cluster, a PostgreSQL or MySQL database. Of all flockd runs on one store and
key at most one command runs, in the order in which they asked.

The lock is a lease: it ends by itself if the host dies. While the command runs
flockd renews the lease, and when it can't be proven any more, flockd stops the
command before anybody else can be granted the key. Every grant has a larger
fencing token than all before it, which the command can hand to whatever it
writes to.`,
		see: []string{"flockd-run(1)", "flockd-elect(1)", "flockd-status(1)", "flockd-config(1)", "flockd.conf(5)", "flock(1)"},
	},
	"flockd-run": {
		more: runSections,
		see:  []string{"flockd(1)", "flockd-elect(1)", "flockd-config(1)", "flockd.conf(5)", "flock(1)", "timeout(1)"},
	},
	"flockd-elect":       {more: electSections, see: []string{"flockd-leader(1)", "flockd-resign(1)", "flockd-run(1)", "flockd.conf(5)", "systemd.service(5)"}},
	"flockd-status":      {more: statusSections, see: []string{"flockd-list(1)", "flockd-break(1)", "flockd-run(1)"}},
	"flockd-list":        {more: listSections, see: []string{"flockd-status(1)", "flockd-break(1)", "flockd-run(1)"}},
	"flockd-break":       {more: breakSections, see: []string{"flockd-status(1)", "flockd-run(1)"}},
	"flockd-leader":      {more: leaderSections, see: []string{"flockd-elect(1)", "flockd-resign(1)", "flockd-status(1)", "flockd-check(1)"}},
	"flockd-resign":      {more: resignSections, see: []string{"flockd-elect(1)", "flockd-leader(1)", "flockd-break(1)"}},
	"flockd-check":       {more: checkSections, see: []string{"flockd-run(1)", "flockd-fence(1)", "flockd-status(1)"}},
	"flockd-drill":       {more: drillSections, see: []string{"flockd-elect(1)", "flockd-leader(1)", "flockd-resign(1)", "flockd-fence-file(1)", "flockd-run(1)"}},
	"flockd-once":        {see: []string{"flockd-once-list(1)", "flockd-once-forget(1)", "flockd-run(1)"}},
	"flockd-once-list":   {more: onceListSections, see: []string{"flockd-once-forget(1)", "flockd-run(1)"}},
	"flockd-once-forget": {more: exitSection("flockd-once-forget"), see: []string{"flockd-once-list(1)", "flockd-run(1)"}},
	"flockd-fence":       {see: []string{"flockd-fence-admit(1)", "flockd-fence-show(1)", "flockd-fence-reset(1)", "flockd-fence-file(1)", "flockd-check(1)", "flockd-run(1)"}},
	"flockd-fence-admit": {more: fenceAdmitSections, see: []string{"flockd-fence-show(1)", "flockd-fence-reset(1)", "flockd-fence-file(1)", "flockd-run(1)"}},
	"flockd-fence-show":  {more: fenceShowSections, see: []string{"flockd-fence-admit(1)", "flockd-fence-reset(1)"}},
	"flockd-fence-reset": {more: fenceResetSections, see: []string{"flockd-fence-admit(1)", "flockd-fence-show(1)"}},
	"flockd-fence-file":  {more: fenceFileSections, see: []string{"flockd-run(1)", "flockd(1)"}},
	"flockd-config":      {see: []string{"flockd-run(1)", "flockd.conf(5)"}},
	"flockd-schema":      {see: []string{"flockd(1)", "flockd-run(1)"}},
	"flockd-version":     {see: []string{"flockd(1)"}},
	"flockd-completion":  {see: []string{"flockd(1)"}},
	"flockd-man":         {see: []string{"flockd(1)", "man(1)"}},
}

// runVariables are the variables that flockd run reads, and sets.
var runVariables = [][2]string{
	{"`FLOCKD_BACKEND`", "The store, if --backend doesn't name it. Set but empty is an error: it is a secret that is missing. The command gets the store in use, with *** for a secret unless it inherits the variable."},
	{"`FLOCKD_CONFIG`", "The configuration file, if --config doesn't name it. /dev/null is none."},
	{"`FLOCKD_HELD`", "The IDs of the enclosing holds, separated by commas. A run never waits behind one of them. The command gets its own added."},
	{"`FLOCKD_KEY`", "Set for the command: the key, also for one that runs unlocked."},
	{"`FLOCKD_TOKEN`", "Set for the command: the fencing token, a decimal number below 2^53. Not set for a command that runs unlocked."},
	{"`FLOCKD_ID`", "Set for the command: the ID of this hold."},
	{"`FLOCKD_TTL`", "Set for the command: the length of the lease in seconds, as granted; decimals where it has them."},
	{"`FLOCKD_SLOT`", "Set for the command with --slots: the number of its slot, from 0. No two that run at a time have the same."},
	{"`FLOCKD_ONCE`", "Set for the command with --once and --once-per: the ID of this run."},
	{"`PATH`", "Where COMMAND is looked for."},
	{"`HOME`, `XDG_CONFIG_HOME`, `XDG_STATE_HOME`", "Where the user's configuration and the default store are."},
}

const runResult = `With --result-file flockd writes one JSON object: "class" is waiting, running, or the
outcome as in the table above (finished, skipped, done, lost, unavailable, max-runtime, not-found,
not-started, interrupted, usage, internal), or killed, which no exit code stands for: flockd was killed, and
the guard wrote it once nothing was left of the command. Beside it are the key, the hold's ID, the token, the
backend without secrets, the host, user and pid of flockd, the base name of the command, the
times, "exit_code" of the command, the "signal" that ended it, "unlocked", the "mode" with
"slots" and "slot", the ID of the "run" and whether its success is "unrecorded", the "notice" of whoever asked it to stop or to leave the line,
"held_by", "error" and "flockd_exit_code". The file has mode 0600 and is replaced as a
whole, so that a reader never finds half of it. With a + in front of the name each
state is appended as one line. Where flags or settings
are wrong, the outcome of an earlier run becomes usage; a flag that can't be read may end flockd
before it knows of the file.`

const runSignals = `HUP, INT, QUIT, TERM, USR1, USR2, WINCH and CONT that come to flockd are passed to the
command. While flockd stands in line HUP, INT, QUIT and TERM end the wait, and the others
are dropped; while it waits for left-overs they stop those. Where the
command, or the wait, ended by a HUP, INT or TERM that came to flockd, flockd ends
by the same signal, so that a script stops as it would without flockd.

On a terminal the command stays in flockd's process group, so that what is typed reaches it as without flockd. INT, QUIT and WINCH that come to
a flockd in the foreground are taken for the terminal's, and not passed a second time; the others go to the command's first process. Without a terminal the command
has a process group of its own, to which they go. What somebody sends to all processes of a job reaches the command twice.

A command that is stopped (Ctrl-Z) keeps its lease: flockd stops as well, and a process that ps(1) shows as "flockd-keep KEY" renews it until flockd goes on.

HUP, INT, TSTP, TTIN and TTOU that are ignored when flockd starts, as nohup(1) has it, stay ignored for the command; others are as by default. docs/signals.md
of the source has a table of all this.`

const runWaiting = `While flockd stands in line it says on stderr who holds the key and since when, its place in the line, and for how
long it has waited. On a terminal that is one line, which is drawn over every second and is gone when the wait ends. Elsewhere, with
--log-format json, where TERM is dumb or unset, and while flockd is in the background of its terminal it is a line at the start, one when
the holder or the place has changed, every 30 seconds at most, and one every 5 minutes while nothing changes. A store that has given no
answer for 10 seconds is named in their stead. -q says nothing of it.`

const runLine = `Exclusive, shared and slot holds of a key stand in one line, in the order in which they asked. An exclusive one is granted the key when nobody is
in front of it; a shared one when only shared ones are; one of --slots N when fewer than N are, all of the same N. So a waiting exclusive run isn't
starved by shared ones that come later, and whoever wants the key in another way than those in front waits until they are gone.

A run whose key is held by a run that encloses it, and which would have to wait for that, is an error with exit code 64, also where others stand between.

--max-waiters counts those in front alone: of several that come at once the first ones stay. --supersede asks all who wait in front to leave; a
run that leaves so, or because an operator wants it to, exits with 75 and says who it was. So does one whose wait ran out: the result file tells them
apart by the "kind" of its "notice", supersede or break; a wait that ran out has no "notice".`

const runOnce = `With --once and --once-per a success is recorded under the run's ID, in the same step that proves that the hold still stands; the record is of KEY alone.
A failure isn't recorded, nor is a success of a run whose flockd was killed before it could be: the next one runs again. So the command
has to bear that it runs once more than it succeeded. A success that can't be recorded is tried again for as long as the lease would last without
renewals, or until a signal comes; then flockd says "unrecorded" and exits with 79.

The ID is the period in which the key is granted, by the store's clock: 2026-11-29T22:15:00Z for a part of a day, aligned to midnight UTC; 2026-11-29, 2026-W48
or 2026-11 in the time zone for a day, a week from Monday and a month. Where a store shows no clock (etcd), this host's picks the period. All who use
KEY must agree on the period and the zone, which the ID doesn't carry. A run that waits and is granted the key in the next period runs for that one, whose
own start then finds it done: keep the start, plus --wait, inside the period. --once-lead makes a run that starts up to so much early count for the period that is about to begin.

With --wait, a run that waits while another one of the same ID succeeds is done at once, without running, even if the key isn't free yet. Without --wait it is
skipped: with -E 0 that is exit code 0 while the other still runs.`

const runProcesses = `The command is stopped as a whole: its process group, its descendants, and those of them that
left the group or lost their parent. That happens when its lease can't be proven any more, after --max-runtime, and
when flockd is killed.

Where flockd may make a cgroup (v2), the command starts inside one of its own, and the kernel kills that.
Elsewhere its processes are known by their group and by marks that they inherit: a soft RLIMIT_LOCKS (ulimit -x)
of some 2^62, which Linux ignores, and the hold's ID in FLOCKD_HELD. --verbose says which it is.

A guard watches over flockd, a process that ps(1) shows as "flockd-guard KEY". If flockd is killed, the guard kills the
command and gives the key back; if flockd is frozen, it kills the command before the lease ends. It ignores
TERM, INT and HUP: don't kill it. With --on-lost warn there is none, and a command outlives its flockd.

Processes that outlive a command which ended by itself are named in a warning, and run on without the lock:
--leftovers leave says nothing, wait keeps the key until they have ended, kill stops them. A daemon that is started on
purpose wants leave.

docs/containment.md of the source says what is out of reach.`

const runCaveats = `A lease is not a mutex. A machine that is frozen as a whole, a store that loses a write
it has acknowledged, or a store's clock that is stepped can let two commands run; then only the
fencing token, a unique constraint or an idempotent command saves the data.

flockd stops processes, not what they set in motion elsewhere: a container started
through a daemon, a command behind ssh, a unit started by systemctl. Put flockd on the far side there. What else it can't stop is under PROCESSES.

flockd and its guard, killed or frozen at once, can stop nothing.

A secret in --backend shows up in ps(1): use FLOCKD_BACKEND, a configuration file or
?password-file= instead.`

// storeURLs are the URLs that --backend takes.
var storeURLs = [][2]string{
	{"`sqlite:`, `sqlite:///PATH`", "A file of this host, by default the one under FILES. Strict on one host."},
	{"`redis://[USER:PASSWORD@]HOST[:6379][/DB]`, `rediss://`…, `redis+unix:///PATH[?db=DB]`", "The primary of a Redis 6 or newer, or Valkey; with TLS; through a Unix socket. A best effort: a failover may lose the lock. `?min-replicas=N` counts a grant or renewal only once N replicas have it."},
	{"`etcd://[USER:PASSWORD@]HOST[:2379],`…`[/PREFIX]`, `etcds://`…", "The members of an etcd cluster; with TLS. Strict, by consensus; versions with known faults a best effort, with a warning. Leases are whole seconds, two at least by default."},
}

const storeOptions = `All take ` + "`?prefix=NAME`" + `, a name space of its own ("flockd" unless given), and ` + "`?timeout=5s`" + `, how long
one request may last; Redis and etcd also take ` + "`?password-file=FILE`" + `, and with TLS ` + "`?cacert=FILE&cert=FILE&key=FILE`" + `. Reserved characters of a
user or password are written as in every URL: / as %2F, @ as %40. Each store's rights, settings and limits are in docs/stores.md of the
source.`

const runFlock = `-n, -w, -E, -c and their long names but --timeout mean what they mean to flock(1), with a key in the place
of the file; -x, -o and -F are taken and do nothing. The exit code for a taken key is 75 and not 1.`

func runSections(r *roff) {
	r.section("exit status")
	for _, c := range exitCodes {
		r.item("`"+c[0]+"`", capital(c[1])+".")
	}
	r.text("`--exit` gives another code to a class.")
	r.section("stores")
	for _, s := range storeURLs {
		r.item(s[0], s[1])
	}
	r.text(storeOptions)
	r.section("waiting")
	r.text(runWaiting)
	r.section("shared holds, slots and manners in line")
	r.text(runLine)
	r.section("runs that aren't repeated")
	r.text(runOnce)
	r.section("processes")
	r.text(runProcesses)
	r.section("signals")
	r.text(runSignals)
	r.section("result file")
	r.text(runResult)
	r.section("environment")
	for _, v := range runVariables {
		r.item(v[0], v[1])
	}
	r.section("files")
	r.item("`/etc/flockd/config.toml`", "The configuration of all users; see flockd.conf(5).")
	r.item("`$XDG_CONFIG_HOME/flockd/config.toml`", "The user's own, by default under ~/.config. root has none.")
	r.item("`/var/lib/flockd/flockd.db`", "The default store of root.")
	r.item("`$XDG_STATE_HOME/flockd/flockd.db`", "The default store of other users, by default under ~/.local/state.")
	r.section("coming from flock")
	r.text(runFlock)
	r.section("caveats")
	r.text(runCaveats)
}

const configFormat = `flockd reads settings from TOML files: the user's own
` + "`$XDG_CONFIG_HOME/flockd/config.toml`" + ` (by default under ~/.config; root has none) and
` + "`/etc/flockd/config.toml`" + `. With --config, or else with FLOCKD_CONFIG, it reads that file alone. A
flag is stronger than FLOCKD_BACKEND, which is stronger than the user's file,
which is stronger than the file in /etc. flockd-config(1) shows which one counts.

  backend = "sqlite:///srv/locks/flockd.db"
  ttl     = "2m"

  [exit]
  skipped = 0

  [key."nightly-*"]
  wait = "10m"

  [key."nightly-report"]
  max-runtime = "2h"`

const configKeys = `A section [key."PATTERN"] holds the settings of the keys that match the pattern. In a
pattern * stands for any characters, / included, ? for one character, and all others
for themselves. Within a file a setting is taken from the first section that has
it: a pattern without wildcards comes first, then the one with more
characters that aren't wildcards, of equals the one further up in the file, and last the settings
outside of all sections. A user's file as a whole is stronger than the one in /etc. Of settings that
rule each other out, such as shared and slots, the stronger one counts alone.`

const configRefused = `A file that exists but can't be used is an error, with exit code 64: flockd never goes on without
it. It is refused if it can't be read, if it belongs to neither root nor the user, if
its group or others may write it, if others may read it while it holds a secret,
if it is larger than 1 MiB, and if it has an unknown setting or a wrong value.`

// configPage is flockd.conf(5).
func configPage() string {
	r := newRoff("flockd.conf", "5")
	r.section("name")
	r.WriteString(escaped("flockd.conf - configuration of flockd") + "\n")
	r.section("description")
	r.text(configFormat)
	r.section("settings")
	r.text("They are named as the flags of flockd-run(1), with the same values. A duration may be a number, of seconds.")
	s := newSettings()
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.register(set)
	for _, name := range slices.Sorted(maps.Keys(s.presets())) {
		flag := set.Lookup(name)
		r.item("`"+name+"`", capital(flagUsage(flag))+".")
	}
	r.item("`exit`", "Exit codes by class: exit.skipped = 0, or exit = [\"skipped=0\", \"lost=1\"].")
	r.section("settings for some keys")
	r.text(configKeys)
	r.section("refused files")
	r.text(configRefused)
	r.section("see also")
	r.text("flockd-run(1), flockd-config(1)")
	return r.String()
}

// commandPage is the man page of a command.
func commandPage(cmd *cobra.Command) string {
	m := manuals[pageName(cmd)]
	r := newRoff(pageName(cmd), "1")
	r.section("name")
	r.WriteString(escaped(pageName(cmd)+" - "+strings.ToLower(cmd.Short[:1])+cmd.Short[1:]) + "\n")
	r.section("synopsis")
	r.WriteString(synopsis(cmd))
	r.section("description")
	if m.description == "" {
		m.description = cmd.Long
	}
	if m.description == "" {
		m.description = cmd.Short + "."
	}
	r.text(m.description)
	writeCommandItems(r, cmd)
	writeOptions(r, cmd)
	if m.more != nil {
		m.more(r)
	}
	if cmd.Example != "" {
		r.section("examples")
		for example := range strings.SplitSeq(cmd.Example, "\n\n") {
			what, lines, _ := strings.Cut(strings.TrimPrefix(example, "# "), "\n")
			r.text(capital(what) + ":")
			r.example(lines)
		}
	}
	r.section("see also")
	r.text(strings.Join(m.see, ", "))
	return r.String()
}

func synopsis(cmd *cobra.Command) string {
	line := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		line = cmd.CommandPath() + " COMMAND [flags]"
	}
	name := cmd.CommandPath()
	return inline("`"+name+"`"+strings.TrimPrefix(line, name)) + "\n"
}

func writeCommandItems(r *roff, cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	r.section("commands")
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			r.item(fmt.Sprintf("`%s`(1)", pageName(c)), c.Short+".")
		}
	}
}

func writeOptions(r *roff, cmd *cobra.Command) {
	groups := flagsByGroup(cmd)
	r.section("options")
	for _, group := range flagGroups {
		if len(groups[group]) == 0 {
			continue
		}
		if len(groups) > 1 {
			r.subsection(group)
		}
		for _, flag := range groups[group] {
			r.item(optionTerm(flag), capital(flagUsage(flag))+".")
		}
	}
}

// optionTerm is "-k, --key KEY", with the names in bold.
func optionTerm(flag *pflag.Flag) string {
	words := strings.Fields(flagNames(flag))
	for i, word := range words {
		if strings.HasPrefix(word, "-") {
			name, comma := strings.CutSuffix(word, ",")
			words[i] = "`" + name + "`"
			if comma {
				words[i] += ","
			}
		}
	}
	return strings.Join(words, " ")
}

func capital(text string) string {
	if strings.HasPrefix(text, "max-runtime") || len(text) > 1 && text[1] >= 'A' && text[1] <= 'Z' {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
